"""Committed and pending offsets of one shard: hard state, written by replay only.

Committed offsets are kept by group, topic and partition, together with the log offset of their
record. A transaction's offsets are kept by producer id (the epoch plays no part) until its marker
comes (docs/spec/offsets-and-log.md#3.4). An index tells which partitions of a group have a pending
offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from typing import NamedTuple

from groupd.protocol.messages import TopicId, TopicPartition
from groupd.protocol.records.schema import OffsetCommitValue


class StoredOffset(NamedTuple):
    """The value of an offset record, and the record's offset in the log. They are in one object,
    because there are millions of them."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: TopicId
    log_offset: int

    @classmethod
    def of(cls, value: OffsetCommitValue, log_offset: int) -> StoredOffset:
        return tuple.__new__(cls, (*value, log_offset))


ByPartition = dict[int, StoredOffset]
ByTopic = dict[str, ByPartition]

_NO_TOPICS: Mapping[str, ByPartition] = {}
_NO_PARTITIONS: Mapping[int, StoredOffset] = {}
_NO_PENDING: Mapping[TopicPartition, set[int]] = {}


_DENSE = 4
"""Sorting some partitions costs about as much as looking up this many times as many partitions."""


def ascending(partitions: Collection[int]) -> Iterator[int]:
    """The partitions in ascending order, without sorting many of them at once. Partitions that are
    removed during the iteration may be left out; those that are added may appear."""
    last = max(partitions, default=-1)
    if last > _DENSE * len(partitions) or min(partitions, default=0) < 0:
        return iter(sorted(partitions))
    return (partition for partition in range(last + 1) if partition in partitions)


class OffsetStore:
    __slots__ = ("_committed", "_count", "_pending", "_producers")

    def __init__(self) -> None:
        self._committed: dict[str, ByTopic] = {}
        self._count = 0
        self._pending: dict[int, dict[str, ByTopic]] = {}
        self._producers: dict[str, dict[TopicPartition, set[int]]] = {}

    @property
    def count(self) -> int:
        """How many offsets are committed in all groups."""
        return self._count

    def topics(self, group_id: str) -> Mapping[str, ByPartition]:
        """The committed offsets of a group, by topic and partition."""
        return self._committed.get(group_id, _NO_TOPICS)

    def get(self, group_id: str, topic: str, partition: int) -> StoredOffset | None:
        return self.topics(group_id).get(topic, _NO_PARTITIONS).get(partition)

    def pending(self, group_id: str) -> Mapping[TopicPartition, Set[int]]:
        """By partition, the producers that have a pending offset."""
        return self._producers.get(group_id, _NO_PENDING)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self.pending(group_id)

    def all_pending(self, group_id: str, topic: str, partition: int) -> Iterator[StoredOffset]:
        """The pending offsets of one partition, by producer id, ascending."""
        for producer_id in sorted(self.pending(group_id).get((topic, partition), ())):
            yield self._pending[producer_id][group_id][topic][partition]

    def pending_groups(self, producer_id: int) -> list[str]:
        """The groups in which a producer has a pending offset, ascending by id."""
        return sorted(self._pending.get(producer_id, ()))

    def pending_count(self, producer_id: int) -> int:
        """How many offsets wait for the marker of a producer."""
        groups = self._pending.get(producer_id)
        if groups is None:
            return 0
        return sum([len(places) for topics in groups.values() for places in topics.values()])

    def put(self, group_id: str, topic: str, partition: int, stored: StoredOffset) -> None:
        try:
            partitions = self._committed[group_id][topic]
        except KeyError:
            partitions = self._committed.setdefault(group_id, {}).setdefault(topic, {})
        self._count += partition not in partitions
        partitions[partition] = stored

    def put_many(self, group_id: str, topic: str, offsets: ByPartition) -> None:
        """Store the offsets of one topic. The store may keep the dict, so the caller must not use
        it any more."""
        topics = self._committed.setdefault(group_id, {})
        partitions = topics.get(topic)
        if partitions is None:
            topics[topic] = offsets
            self._count += len(offsets)
        else:
            before = len(partitions)
            partitions.update(offsets)
            self._count += len(partitions) - before

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, stored: StoredOffset
    ) -> None:
        groups = self._pending.setdefault(producer_id, {})
        groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = stored
        index = self._producers.setdefault(group_id, {})
        index.setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Apply a tombstone: remove the committed offset and the pending offsets of all
        producers."""
        if _discard(self._committed, group_id, topic, partition):
            self._count -= 1
        for producer_id in self._producers.get(group_id, {}).pop((topic, partition), ()):
            groups = self._pending[producer_id]
            _discard(groups, group_id, topic, partition)
            if not groups:
                del self._pending[producer_id]
        if not self._producers.get(group_id, True):
            del self._producers[group_id]

    def take_pending(self, producer_id: int) -> list[tuple[str, str, int, StoredOffset]]:
        """Remove and return the pending offsets of a producer as (group, topic, partition, offset);
        [] if it has none."""
        taken = [
            (group_id, topic, partition, stored)
            for group_id, topics in self._pending.pop(producer_id, {}).items()
            for topic, partitions in topics.items()
            for partition, stored in partitions.items()
        ]
        for group_id, topic, partition, _ in taken:
            index = self._producers[group_id]
            index[topic, partition].discard(producer_id)
            if not index[topic, partition]:
                del index[topic, partition]
            if not index:
                del self._producers[group_id]
        return taken


def _discard(groups: dict[str, ByTopic], group_id: str, topic: str, partition: int) -> bool:
    """Remove one entry, and the levels that are empty then. Returns whether the entry was there."""
    topics = groups.get(group_id, {})
    partitions = topics.get(topic, {})
    if partitions.pop(partition, None) is None:
        return False
    if not partitions:
        del topics[topic]
    if not topics:
        del groups[group_id]
    return True
