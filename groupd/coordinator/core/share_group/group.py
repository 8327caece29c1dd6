"""A share group: hard state, which replay alone changes, and a little soft state
(docs/spec/share-group.md#2.1)."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.counts import move_all
from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.large_targets import TargetComputation
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.share_group import records
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.share_group.state_partitions import StatePartitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import (
    Record,
    ShareGroupCurrentMemberKey,
    ShareGroupMetadataKey,
    ShareGroupTargetMetadataKey,
)

TYPE_NAME = "share"

SESSION = "share-session"
"""Deadline kind: the member must have sent a heartbeat by then."""
DELETED_TOPICS = "share-deleted-topics"
"""Deadline kind: topics of the group were deleted, and its next record (type 15) leaves them
out."""

NO_TARGET: Assignment = {}
"""The target of a member that has none."""

_EPOCHS = (ShareGroupMetadataKey, ShareGroupTargetMetadataKey, ShareGroupCurrentMemberKey)
"""Keys of records that change neither targets nor subscriptions nor initialized partitions."""

INITIAL_EPOCH = 1
"""Group and assignment epoch of a new group."""


class ShareGroup:
    """Implements `coordinator.core.group.Group`. `state_partitions`: None until its first record
    (type 15). Handlers read members, targets and counts and must not change them."""

    __slots__ = (
        "_unassigned",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "changes",
        "computation",
        "group_epoch",
        "group_id",
        "members",
        "metadata_hash",
        "name_subscribers",
        "refresh_deadline_epoch",
        "refresh_deadline_ms",
        "state_partitions",
        "targets",
    )

    type_name = TYPE_NAME
    protocol_type = TYPE_NAME
    offset_owner = None

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = INITIAL_EPOCH
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, ShareGroupMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.state_partitions: StatePartitions | None = None
        self.name_subscribers: dict[str, int] = {}
        self._unassigned: tuple[MetadataImage, bool] | None = None
        self.changes = 0
        """Counts the records that were replayed into the group."""
        # Soft state. `computation`: of a target in slices (`large_targets`).
        self.computation: TargetComputation | None = None
        self.refresh_deadline_ms = 0
        self.refresh_deadline_epoch = 0

    # The Group protocol

    @property
    def epoch(self) -> int:
        return self.group_epoch

    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    def is_empty(self) -> bool:
        return not self.members

    def awaits_members(self) -> bool:
        return False

    def admits_classic_members(self) -> bool:
        return False

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def cancel_deadlines(self, deadlines: Deadlines) -> None:
        deadlines.cancel_group(self.group_id)

    def tombstones(self) -> list[Record]:
        """T14*, T13*, T12, T10*, T15, T11. An empty group has only T12, T15, T11."""
        ids = sorted(self.members)
        return [
            *(records.current_member_tombstone(self.group_id, id_) for id_ in ids),
            *(records.target_member_tombstone(self.group_id, id_) for id_ in ids),
            records.target_epoch_tombstone(self.group_id),
            *(records.member_metadata_tombstone(self.group_id, id_) for id_ in ids),
            records.state_partitions_tombstone(self.group_id),
            records.group_epoch_tombstone(self.group_id),
        ]

    # Reading

    @property
    def initialized(self) -> Mapping[TopicId, frozenset[int]]:
        """The partitions that members may get."""
        return {} if self.state_partitions is None else self.state_partitions.initialized

    def has_unassigned_partitions(self, image: MetadataImage) -> bool:
        """Whether the targets of all members together do not have exactly the initialized
        partitions of some existing topic that a member subscribes to
        (docs/spec/share-group.md#2.2). It is found out once after each change of these, but not
        after each record of an epoch, because then a large group would do nothing else."""
        if self._unassigned is None or self._unassigned[0] is not image:
            self._unassigned = image, bool(self.members) and self._find_unassigned(image)
        return self._unassigned[1]

    def _find_unassigned(self, image: MetadataImage) -> bool:
        nobody: set[int] = set()
        owned: dict[TopicId, set[int]] = {}
        for target in self.targets.values():
            for topic_id, numbers in target.items():
                owned.setdefault(topic_id, set()).update(numbers)
        return any(
            owned.get(topic_id, nobody) != numbers
            for topic_id, numbers in self.initialized.items()
            if topic_id in image.by_id and image.by_id[topic_id].name in self.name_subscribers
        )

    # Replay

    def changed(self, key: object) -> None:
        """To be called for each record that is replayed into the group. `key`: of the record."""
        if type(key) not in _EPOCHS:
            self._unassigned = None
        self.changes += 1

    def put_member(self, member: ShareGroupMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        old_names = () if old is None else old.subscribed_topic_names
        if old_names is not member.subscribed_topic_names:
            move_all(self.name_subscribers, old_names, member.subscribed_topic_names)
        self.members[member.member_id] = member

    def remove_member(self, member: ShareGroupMember) -> None:
        del self.members[member.member_id]
        move_all(self.name_subscribers, member.subscribed_topic_names, ())
