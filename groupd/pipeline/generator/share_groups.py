"""Generates share groups: the records of their members, and the state of their share-partitions.

Consumers take what has been produced since the last step and accept it. A few records are poison:
they are released each time until they are given up. Now and then a consumer crashes, and all that
it had comes again. In the last part of the log nobody reads one partition any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from msgspec import Struct, field

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.logtools.share_state import shard_of
from groupd.pipeline.generator.consumer_members import encoded
from groupd.pipeline.generator.script import (
    GeneratedTopic,
    GeneratedWorld,
    ScriptTurn,
    client_host,
    member_uuid,
)
from groupd.protocol.messages.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    NO_OFFSET,
    ShareStateBatch,
)
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.schema import (
    AssignedTopic,
    Record,
    ShareGroupCurrentMemberKey,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionsKey,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataKey,
    ShareGroupTargetMetadataValue,
    ShareStatePartitions,
)
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareUpdate,
    encode_record,
)

STATE_PARTITIONS = 50
_FETCH_MAX = 500
_STEPS = 1000
"""About how many writes a share-partition gets."""

_DELIVERIES_MAX = 5
_UPDATES_A_SNAPSHOT = 500
_EPOCH = 3
_POISON, _CRASH = 0.1, 0.02
"""How often a fetch has a poison record, and how often its consumer crashes."""

_STILL_FROM = 0.8
"""From this part of the time on nobody reads partition 0."""


class ShareLogs(Struct):
    """The batches of share groups, by partition of `__consumer_offsets` and of
    `__share_group_state`."""

    groups: dict[int, list[ScriptTurn]] = field(default_factory=dict)
    state: dict[int, list[ScriptTurn]] = field(default_factory=dict)


def share_logs(world: GeneratedWorld, count: int) -> ShareLogs:
    """The logs of `count` share groups."""
    logs = ShareLogs()
    for number in range(count):
        rng = Random(f"{world.seed}/share/{number}")
        topic = world.topics[number % len(world.topics)]
        group = f"jobs-{topic.name}-{number:04d}"
        at = partition_for(group, world.partitions)
        logs.groups.setdefault(at, []).extend(_members(group, topic, world, rng))
        for partition in range(topic.partitions):
            key = SharePartitionKey(group, topic.topic_id, partition)
            state = logs.state.setdefault(shard_of(key, STATE_PARTITIONS), [])
            state += _Deliveries(key, topic, world, rng).turns()
    return logs


def _members(
    group: str, topic: GeneratedTopic, world: GeneratedWorld, rng: Random
) -> Iterator[ScriptTurn]:
    """A member joins, its partitions are initialized, and it gets them."""
    member, at_ms = member_uuid(rng), world.start_ms + rng.randrange(1000)
    partitions = tuple(range(topic.partitions))
    state = (ShareStatePartitions(topic.topic_id, topic.name, partitions),)
    description = ShareGroupMemberMetadataValue(None, f"{group}-0", client_host(0), (topic.name,))
    joined = Record(ShareGroupMemberMetadataKey(group, member), description)
    place = ShareGroupStatePartitionsKey(group)
    yield _turn(
        at_ms,
        joined,
        *_assignment(group, member, _EPOCH - 1, (), at_ms),
        Record(place, ShareGroupStatePartitionsValue(initializing=state)),
    )
    yield _turn(at_ms + 50, Record(place, ShareGroupStatePartitionsValue(initialized=state)))
    own = (AssignedTopic(topic.topic_id, partitions),)
    yield _turn(at_ms + 5000, *_assignment(group, member, _EPOCH, own, at_ms + 5000))


def _assignment(
    group: str, member: str, epoch: int, own: tuple[AssignedTopic, ...], at_ms: int
) -> Iterator[Record]:
    yield Record(ShareGroupMetadataKey(group), ShareGroupMetadataValue(epoch, 1))
    yield Record(ShareGroupTargetMemberKey(group, member), ShareGroupTargetMemberValue(own))
    yield Record(ShareGroupTargetMetadataKey(group), ShareGroupTargetMetadataValue(epoch, at_ms))
    current = ShareGroupCurrentMemberValue(epoch, epoch - 1, assigned=own)
    yield Record(ShareGroupCurrentMemberKey(group, member), current)


def _turn(at_ms: int, *records: Record) -> ScriptTurn:
    pairs = [encoded(record) for record in records]
    return ScriptTurn(at_ms, len(pairs), encode_batch(0, 0, at_ms, pairs))


class _Range(Struct):
    """Offsets that were delivered together."""

    first: int
    last: int
    poison: bool = False
    state: int = AVAILABLE
    count: int = 0

    @property
    def batch(self) -> ShareStateBatch:
        return ShareStateBatch(self.first, self.last, self.state, self.count)


class _Deliveries:
    """The deliveries of one share-partition. An object is used once."""

    def __init__(
        self, key: SharePartitionKey, topic: GeneratedTopic, world: GeneratedWorld, rng: Random
    ) -> None:
        self._key, self._topic, self._world, self._rng = key, topic, world, rng
        self._start = self._next = topic.end(key.partition, 0)
        self._ranges: list[_Range] = []
        self._epoch = self._updates = 0

    def turns(self) -> Iterator[ScriptTurn]:
        world, rng = self._world, self._rng
        begin_ms = world.start_ms + 1100
        times = (begin_ms, begin_ms)
        yield self._write(begin_ms, ShareSnapshot(0, _EPOCH - 1, 0, NO_OFFSET, *times))
        end_ms = world.end_ms
        if self._key.partition == 0:
            end_ms = world.start_ms + int((end_ms - world.start_ms) * _STILL_FROM)
        step_ms = max(1000, (world.end_ms - world.start_ms) // _STEPS)
        for at_ms in range(begin_ms + 5000, end_ms, step_ms):
            written = [*self._again(), *self._new(at_ms)]
            if written:
                yield self._step(at_ms + rng.randrange(step_ms // 2), written)

    def _again(self) -> Iterator[_Range]:
        """What was released is delivered again."""
        for one in self._ranges:
            if one.state == AVAILABLE:
                one.count += 1
                if not one.poison:
                    one.state = ACKNOWLEDGED
                elif one.count == _DELIVERIES_MAX:
                    one.state = ARCHIVED
                yield one

    def _new(self, at_ms: int) -> Iterator[_Range]:
        """What was produced meanwhile, at most a fetch of it."""
        rng, first = self._rng, self._next
        end = self._topic.end(self._key.partition, (at_ms - self._world.start_ms) / 1000)
        end = min(end, first + _FETCH_MAX)
        if end <= first:
            return
        self._next = end
        poison = rng.randrange(first, end) if rng.random() < _POISON else -1
        state = AVAILABLE if rng.random() < _CRASH else ACKNOWLEDGED
        cuts = [first, end] if poison < 0 else [first, poison, poison + 1, end]
        for low, high in pairwise(cuts):
            if low < high:
                bad = low == poison
                one = _Range(low, high - 1, bad, AVAILABLE if bad else state, 1)
                self._ranges.append(one)
                yield one

    def _step(self, at_ms: int, written: list[_Range]) -> ScriptTurn:
        """The write of one step. It names the start offset before it, as a leader does."""
        start = self._start
        self._updates += 1
        ended = sum(one.last - one.first + 1 for one in self._ranges if one.state != AVAILABLE)
        value: ShareSnapshot | ShareUpdate
        if self._updates > _UPDATES_A_SNAPSHOT:
            self._epoch, self._updates = self._epoch + 1, 0
            batches = tuple(one.batch for one in self._ranges)
            times = (at_ms, at_ms)
            value = ShareSnapshot(self._epoch, _EPOCH - 1, 0, start, *times, batches, ended)
        else:
            batches = tuple(one.batch for one in written)
            value = ShareUpdate(self._epoch, 0, start, batches, ended)
        while self._ranges and self._ranges[0].state != AVAILABLE:
            self._start = self._ranges.pop(0).last + 1
        return self._write(at_ms, value)

    def _write(self, at_ms: int, value: ShareSnapshot | ShareUpdate) -> ScriptTurn:
        return ScriptTurn(at_ms, 1, encode_batch(0, 0, at_ms, [encode_record(self._key, value)]))
