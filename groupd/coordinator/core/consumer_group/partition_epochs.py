"""Which member epoch holds each partition (docs/spec/consumer-group.md#3 "Partition-epoch map").

Only replay writes it; it prevents a partition from having two owners. A group holds nearly all
partitions of its topics, so their epochs are in an array, indexed by partition: four bytes each,
where a dictionary takes fifty.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.errors import ReplayError
from groupd.protocol.messages import TopicId

FREE = -1
"""Partition epoch of a partition that no member holds."""


ARRAY_MAX = 1 << 17
"""Partitions with this number or a higher one are in a dictionary, because a damaged log may hold
any number."""


class PartitionEpochMap:
    """(topic, partition) -> member epoch of the holder, pending revocation included. A static
    member that left for a while holds its partitions with -2, so they are not free."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[TopicId, _Topic] = {}

    def get(self, topic_id: TopicId, partition: int) -> int:
        topic = self._topics.get(topic_id)
        return FREE if topic is None else topic.get(partition)

    def items(self) -> Iterator[tuple[TopicId, dict[int, int]]]:
        """The epochs by topic, as copies, for invariants and tests."""
        return ((topic_id, topic.copy()) for topic_id, topic in self._topics.items())

    def replace(self, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None) -> None:
        """Replace what a member held as `old` by what it holds as `new`. Raises ReplayError if it
        cannot take a partition."""
        if old is not None and new is not None and _same_holdings(old, new):
            return
        # At epoch -1, which is FREE, a member holds nothing.
        if old is not None and old.member_epoch != FREE:
            self._remove(old)
        if new is not None and new.member_epoch != FREE:
            self._add(new)

    def _remove(self, member: ConsumerGroupMember) -> None:
        for holdings in (member.assigned, member.pending_revocation):
            for topic_id, partitions in holdings.items():
                topic = self._topics.get(topic_id)
                if topic is None:
                    continue
                topic.free(partitions, member.member_epoch)
                if not topic.held:
                    del self._topics[topic_id]

    def _add(self, member: ConsumerGroupMember) -> None:
        for holdings in (member.assigned, member.pending_revocation):
            for topic_id, partitions in holdings.items():
                topic = self._topics.get(topic_id)
                if topic is None:
                    topic = self._topics[topic_id] = _Topic()
                refused = topic.take(partitions, member.member_epoch)
                if refused is not None:
                    raise ReplayError(
                        f"partition {topic_id.hex()}-{refused} is held at epoch "
                        f"{topic.get(refused)}; member {member.member_id} cannot take it at epoch "
                        f"{member.member_epoch}"
                    )


class _Topic:
    """The partitions of one topic. `held`: how many of them are not free."""

    __slots__ = ("_array", "_others", "held")

    def __init__(self) -> None:
        self._array = array("i")
        self._others: dict[int, int] | None = None
        self.held = 0

    def get(self, partition: int) -> int:
        if 0 <= partition < len(self._array):
            return self._array[partition]
        return FREE if self._others is None else self._others.get(partition, FREE)

    def copy(self) -> dict[int, int]:
        found = {number: epoch for number, epoch in enumerate(self._array) if epoch != FREE}
        return found | (self._others or {})

    def take(self, partitions: Iterable[int], epoch: int) -> int | None:
        """Give partitions to a member at `epoch`. Stops at the first partition that is held at this
        epoch or a later one, and returns it; None if the member got all of them."""
        epochs = self._array
        highest = max(partitions, default=-1)
        if highest >= ARRAY_MAX:
            highest = max((number for number in partitions if number < ARRAY_MAX), default=-1)
        if len(epochs) <= highest:
            epochs.frombytes(b"\xff" * (epochs.itemsize * (highest + 1 - len(epochs))))
        size, taken, refused = len(epochs), 0, None
        for partition in partitions:
            if not 0 <= partition < size:
                if self._take_other(partition, epoch):
                    continue
                refused = partition
                break
            stored = epochs[partition]
            if stored == FREE:
                taken += 1
            elif stored >= epoch:
                refused = partition
                break
            epochs[partition] = epoch
        self.held += taken
        return refused

    def _take_other(self, partition: int, epoch: int) -> bool:
        if self._others is None:
            self._others = {}
        stored = self._others.get(partition, FREE)
        if stored == FREE:
            self.held += 1
        elif stored >= epoch:
            return False
        self._others[partition] = epoch
        return True

    def free(self, partitions: Iterable[int], epoch: int) -> None:
        """Free those of the partitions that are held at `epoch`, that of the member that had them.
        The others may have a newer holder already, because the log's compaction drops records."""
        epochs = self._array
        size = len(epochs)
        for partition in partitions:
            if 0 <= partition < size:
                if epochs[partition] == epoch:
                    epochs[partition] = FREE
                    self.held -= 1
            elif self._others is not None and self._others.get(partition) == epoch:
                del self._others[partition]
                self.held -= 1


def _same_holdings(old: ConsumerGroupMember, new: ConsumerGroupMember) -> bool:
    return (
        old.member_epoch == new.member_epoch
        and old.assigned is new.assigned
        and old.pending_revocation is new.pending_revocation
    )
