"""Which member epoch holds each partition (spec 3 "Partition-epoch map"), and who is aimed at it.

Both maps are kept by replay alone; they are what keeps a partition from having two owners.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.assignors.api import Assignment
from coordinator.core.consumer_group.errors import ReplayError
from coordinator.core.consumer_group.member import ConsumerGroupMember
from protocol.messages import TopicId

FREE = -1
"""Partition epoch of a partition that nobody holds."""


class PartitionEpochMap:
    """(topic, partition) -> member epoch of the holder, pending revocation included. A static
    member that left for a while holds its partitions with -2: not free."""

    __slots__ = ("_epochs",)

    def __init__(self) -> None:
        self._epochs: dict[TopicId, dict[int, int]] = {}

    def get(self, topic_id: TopicId, partition: int) -> int:
        topic = self._epochs.get(topic_id)
        return FREE if topic is None else topic.get(partition, FREE)

    def items(self) -> Iterable[tuple[TopicId, dict[int, int]]]:
        """For invariants and tests; do not change."""
        return self._epochs.items()

    def replace(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Move a member's holdings from its old to its new form; raises ReplayError."""
        if old is not None and new is not None and _same_holdings(old, new):
            return
        if old is not None:
            self._remove(old)
        if new is not None:
            self._add(new)

    def _remove(self, member: ConsumerGroupMember) -> None:
        for holdings in (member.assigned, member.pending_revocation):
            for topic_id, partitions in holdings.items():
                epochs = self._epochs.get(topic_id)
                if epochs is None:
                    continue
                for partition in partitions:
                    # A newer holder may already stand here: the log's compaction drops records.
                    if epochs.get(partition) == member.member_epoch:
                        del epochs[partition]
                if not epochs:
                    del self._epochs[topic_id]

    def _add(self, member: ConsumerGroupMember) -> None:
        epoch = member.member_epoch
        for holdings in (member.assigned, member.pending_revocation):
            for topic_id, partitions in holdings.items():
                epochs = self._epochs.setdefault(topic_id, {})
                for partition in partitions:
                    stored = epochs.get(partition)
                    if stored is not None and stored >= epoch:
                        raise ReplayError(
                            f"partition {topic_id.hex()}-{partition} is held at epoch {stored}; "
                            f"member {member.member_id} cannot take it at epoch {epoch}"
                        )
                    epochs[partition] = epoch


def _same_holdings(old: ConsumerGroupMember, new: ConsumerGroupMember) -> bool:
    return (
        old.member_epoch == new.member_epoch
        and old.assigned is new.assigned
        and old.pending_revocation is new.pending_revocation
    )


class TargetHolders:
    """The inverted target: topic -> partition -> member id, for `GroupSpec.is_assigned`."""

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        self._holders: dict[TopicId, dict[int, str]] = {}

    def holder(self, topic_id: TopicId, partition: int) -> str | None:
        topic = self._holders.get(topic_id)
        return None if topic is None else topic.get(partition)

    def replace(self, member_id: str, old: Assignment, new: Assignment) -> None:
        for topic_id, partitions in old.items():
            kept = new.get(topic_id, ())
            holders = self._holders.get(topic_id)
            if holders is None or partitions is kept:
                continue
            for partition in partitions:
                # The record of the partition's next holder may have come first.
                if holders.get(partition) == member_id:
                    del holders[partition]
            if not holders:
                del self._holders[topic_id]
        for topic_id, partitions in new.items():
            holders = self._holders.setdefault(topic_id, {})
            for partition in partitions:
                holders[partition] = member_id
