"""A consumer group: hard state, and indexes over it that replay alone keeps up to date.

Why the indexes: a steady heartbeat must not go through all members. So subscriber counts, assignor
votes, the group state and the holders of partitions are counted as members change. The methods
under "Replay" are the writers; everything else reads. Soft state is at the end of `__init__`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Generator, Sequence, Set

from msgspec import Struct

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group import records
from groupd.coordinator.core.consumer_group.indexes import ResolvedRegexes
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.core.consumer_group.partition_epochs import PartitionEpochMap
from groupd.coordinator.core.counts import move, move_all
from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.group import ExpirationBase, commit_time
from groupd.coordinator.core.types import Instant, Outcome
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.offsets import CommitTopic
from groupd.protocol.records.schema import ConsumerGroupRegexValue, Record

TYPE_NAME = "consumer"

SESSION = "consumer-session"
REBALANCE = "consumer-rebalance"
JOIN = "consumer-join"
"""Deadline kind: a member on the classic protocol was told to rejoin and must do so by then."""
SYNC = "consumer-sync"
"""Deadline kind: a member on the classic protocol has joined and must send its SyncGroup by
then."""

TARGET = "consumer-target"
"""Deadline kind: the group has waited long enough for further members, and its target is computed
now. Deadlines of this and the next two kinds belong to the group, so their member id is empty."""
ANSWER = "consumer-answer"
"""Deadline kind: the group answers the next of its waiting heartbeats."""
PATIENCE = "consumer-patience"
"""Deadline kind: the oldest waiting heartbeat has waited as long as it may."""

SHARED_TARGET_KINDS = frozenset({TARGET, ANSWER, PATIENCE})
"""The deadline kinds of heartbeats that wait for a shared target."""

KINDS = (SESSION, REBALANCE, JOIN, SYNC)
"""The deadline kinds that are cancelled when a member leaves."""

FIRST_CONSUMER_COMMIT_VERSION = 9
"""Versions of OffsetCommit below this one cannot carry the errors of the consumer protocol."""

NO_TARGET: Assignment = {}
"""The target of a member that has none."""

INITIAL_EPOCH = 1
"""Group and assignment epoch of a new group."""


class TargetComputation(Struct):
    """The computation of one target of a large group (`deferred_target`). `steps`: the work that is
    left; `touched_ms`: monotonic time of its last slice; `failed`: its assignor has failed."""

    steps: Generator[Outcome, Instant, None]
    touched_ms: int
    failed: bool = False


class ConsumerGroup:
    """The hard state, indexes and soft state of a group (docs/spec/consumer-group.md#3 "Group");
    implements `coordinator.core.group.Group`.

    `targets`, `members`, `static_members` (instance id -> member id) and the counts are read by
    handlers, which must not change them.
    """

    __slots__ = (
        "_member_ids",
        "_stable_at",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "assignor_votes",
        "changes",
        "computation",
        "group_epoch",
        "group_id",
        "has_partition_metadata",
        "hash_cache",
        "members",
        "metadata_hash",
        "name_subscribers",
        "partition_epochs",
        "rebalance_epochs",
        "refresh_deadline_epoch",
        "refresh_deadline_ms",
        "regex_subscribers",
        "regexes",
        "rejoin_epoch",
        "static_members",
        "targets",
        "topics_version",
        "unacknowledged",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = INITIAL_EPOCH
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.metadata_hash = 0
        self.has_partition_metadata = False
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Assignment] = {}
        self.regexes = ResolvedRegexes()
        # Indexes over the hard state above.
        self.name_subscribers: dict[str, int] = {}
        self.regex_subscribers: dict[str, int] = {}
        self.assignor_votes: dict[str, int] = {}
        self.partition_epochs = PartitionEpochMap()
        self.topics_version = 0
        self._stable_at: dict[int, int] = {}
        self._member_ids: list[str] | None = None
        # Soft state. `hash_cache`: (image, topics_version, hash) of the last full computation.
        # `rejoin_epoch`: a group epoch whose target only a classic member's JoinGroup can compute.
        # `computation`: the computation of a target in slices (`deferred_target`).
        # `unacknowledged`: member id -> monotonic ms at which the member was last sent an
        # assignment that its client has not reported yet.
        self.refresh_deadline_ms = 0
        self.refresh_deadline_epoch = 0
        self.rejoin_epoch = 0
        self.computation: TargetComputation | None = None
        self.rebalance_epochs: dict[str, int] = {}
        self.unacknowledged: dict[str, int] = {}
        self.hash_cache: tuple[object, int, int] | None = None
        self.changes = 0
        """Counts the records that were replayed into the group and the assignments that were sent
        to members. As long as it stays the same, a settled member's heartbeat gets the same
        reply."""

    # The Group protocol

    type_name = TYPE_NAME
    protocol_type = "consumer"

    @property
    def offset_owner(self) -> ConsumerGroup:
        return self

    @property
    def epoch(self) -> int:
        return self.group_epoch

    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if self._stable_at.get(self.assignment_epoch, 0) != len(self.members):
            return "Reconciling"
        return "Stable"

    def is_empty(self) -> bool:
        return not self.members

    def awaits_members(self) -> bool:
        return False

    def admits_classic_members(self) -> bool:
        return not self.members

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        topics: Sequence[CommitTopic],
        *,
        api_version: int,
        transactional: bool,
        too_long: Set[tuple[str, int]],
    ) -> None:
        """Checks an offset commit (docs/spec/offsets-and-log.md#3.1 "Consumer"). The instance id is
        not checked here."""
        if generation_or_epoch < 0 and not self.members:
            return
        anonymous = generation_or_epoch == -1 and member_id == "" and instance_id is None
        if transactional and anonymous:
            return
        member = self.members.get(member_id)
        if member is None:
            raise unknown_member(self.group_id, member_id)
        _check_commit(
            member,
            generation_or_epoch,
            topics,
            api_version=None if transactional else api_version,
            too_long=too_long,
        )

    def on_offset_commit(
        self, member_id: str, instance_id: str | None, now: Instant, deadlines: Deadlines
    ) -> None:
        """Does nothing: only heartbeats prolong the session of a member of a consumer group."""

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None:
            if member_epoch >= 0:
                # Kafka looks the null id up and fails; clients may rely on the code.
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        member = self.members.get(member_id)
        if member is None:
            raise unknown_member(self.group_id, member_id)
        _check_fetch(member, member_epoch)

    def check_offset_delete(self) -> None:
        """Always allowed; partitions of subscribed topics are refused one by one."""

    def check_delete(self) -> None:
        if self.members:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.name_subscribers or topic in self.regexes.topics

    def offset_expiration_base(self) -> ExpirationBase:
        return commit_time

    def cancel_deadlines(self, deadlines: Deadlines) -> None:
        """Cancels all deadlines but those of parked heartbeats, which still have to be answered."""
        deadlines.cancel_group(self.group_id, SHARED_TARGET_KINDS)

    def tombstones(self) -> list[Record]:
        """T8*, T7*, T6, T5*, T16*, T4, T3."""
        return self.tombstones_of(self.sorted_member_ids())

    def tombstones_of(self, ids: Sequence[str]) -> list[Record]:
        """The tombstones of `tombstones`, but for a group that will have only these members once
        earlier records of the same operation are replayed."""
        return [
            *(records.current_member_tombstone(self.group_id, id_) for id_ in ids),
            *(records.target_member_tombstone(self.group_id, id_) for id_ in ids),
            records.target_epoch_tombstone(self.group_id),
            *(records.member_metadata_tombstone(self.group_id, id_) for id_ in ids),
            *(records.regex_tombstone(self.group_id, pattern) for pattern in self.regexes),
            records.partition_metadata_tombstone(self.group_id),
            records.group_epoch_tombstone(self.group_id),
        ]

    # Reading

    def sorted_member_ids(self) -> list[str]:
        """Member ids, ascending. The list is the group's own and must not be changed; it stays
        sorted once it was asked for."""
        if self._member_ids is None:
            self._member_ids = sorted(self.members)
        return self._member_ids

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_classic_only(self, without: Container[str] = ()) -> bool:
        """Whether every member is on the classic protocol, apart from those in `without` (member
        ids)."""
        return all(
            member.classic is not None
            for member_id, member in self.members.items()
            if member_id not in without
        )

    def subscribed_topics(self) -> set[str]:
        """The names of all topics that a member subscribes to, by name or by a resolved
        expression."""
        return self.name_subscribers.keys() | self.regexes.topics.keys()

    # Replay

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Add or replace a member. Raises ReplayError if it takes a partition that is held."""
        old = self.members.get(member.member_id)
        if old is None:
            self._add_member_id(member.member_id)
        self.partition_epochs.replace(old, member)
        self._count(old, member)
        if old is not None and old.instance_id != member.instance_id:
            self._forget_instance(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member

    def remove_member(self, member: ConsumerGroupMember) -> None:
        del self.members[member.member_id]
        if self._member_ids is not None:
            del self._member_ids[bisect_left(self._member_ids, member.member_id)]
        self.partition_epochs.replace(member, None)
        self._count(member, None)
        self._forget_instance(member)
        self.rebalance_epochs.pop(member.member_id, None)
        self.unacknowledged.pop(member.member_id, None)

    def set_target(self, member_id: str, target: Assignment) -> None:
        self.targets[member_id] = target

    def remove_target(self, member_id: str) -> None:
        self.targets.pop(member_id, None)

    def set_regex(self, pattern: str, value: ConsumerGroupRegexValue | None) -> None:
        before = self.regexes.topics_of(pattern)
        self.regexes.set(pattern, value)
        if before != self.regexes.topics_of(pattern):
            self.topics_version += 1

    def _add_member_id(self, member_id: str) -> None:
        if self._member_ids is not None:
            insort(self._member_ids, member_id)

    def _forget_instance(self, member: ConsumerGroupMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _count(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Update every count for a member that was `old` and is `new` now."""
        move(self._stable_at, _stable_epoch(old), _stable_epoch(new))
        if old is not None and new is not None and new.is_described_as(old):
            return
        old_vote = None if old is None else old.server_assignor
        new_vote = None if new is None else new.server_assignor
        if old_vote != new_vote:
            move(self.assignor_votes, old_vote, new_vote)
        old_regex = None if old is None else old.subscribed_topic_regex or None
        new_regex = None if new is None else new.subscribed_topic_regex or None
        if old_regex != new_regex:
            move(self.regex_subscribers, old_regex, new_regex)
        old_names = () if old is None else old.subscribed_topic_names
        new_names = () if new is None else new.subscribed_topic_names
        if old_names != new_names and move_all(self.name_subscribers, old_names, new_names):
            self.topics_version += 1


def unknown_member(group_id: str, member_id: str) -> ApiError:
    return ApiError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def _stable_epoch(member: ConsumerGroupMember | None) -> int | None:
    if member is None or member.state != MemberState.STABLE:
        return None
    return member.member_epoch


def _check_commit(
    member: ConsumerGroupMember,
    received_epoch: int,
    topics: Sequence[CommitTopic],
    *,
    api_version: int | None,
    too_long: Set[tuple[str, int]],
) -> None:
    """Rules 4-7 for a known member. A commit with an older epoch passes if every partition has been
    with the member since that epoch. `api_version`: that of OffsetCommit; None for a transactional
    commit, where the caller translates the code for old versions. Raises ApiError."""
    too_old = api_version is not None and api_version < FIRST_CONSUMER_COMMIT_VERSION
    if too_old and member.classic is None:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "Members on the consumer protocol must commit with OffsetCommit v9 or later.",
        )
    if received_epoch == member.member_epoch:
        return
    if received_epoch > member.member_epoch:
        raise _stale(member, received_epoch)
    for topic in topics:
        assigned = member.assigned.get(topic.topic_id, {})
        pending = member.pending_revocation.get(topic.topic_id, {})
        for partition in topic.partitions.numbers:
            if too_long and (topic.name, partition) in too_long:
                continue
            since = assigned.get(partition, pending.get(partition))
            if since is None or received_epoch < since:
                raise _stale(member, received_epoch)


def _check_fetch(member: ConsumerGroupMember, received_epoch: int) -> None:
    """Raises ApiError unless the epochs are equal: the member must fetch the offset of exactly the
    assignment that it will consume."""
    if received_epoch != member.member_epoch:
        raise _stale(member, received_epoch)


def _stale(member: ConsumerGroupMember, received: int) -> ApiError:
    code = ErrorCode.ILLEGAL_GENERATION if member.classic else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(
        code, f"Epoch {received} is stale: member {member.member_id} is at {member.member_epoch}."
    )
