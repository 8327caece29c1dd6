"""A log of share groups' state for a generated world.

Consumers take what has been produced since the last step and accept it. A few records are poison:
they are released each time until they are given up. Now and then a consumer crashes, and all that
it had comes again. In the last part of the log nobody reads one partition any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from msgspec import Struct

from groupd.pipeline.generator.script import GeneratedTopic, GeneratedWorld
from groupd.protocol.messages.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    NO_OFFSET,
    ShareStateBatch,
)
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareUpdate,
)
from tests.unit.logtools.share_logs import StateRecord, home_of, state_batch

_FETCH_MAX = 500
_STEPS = 1000
"""About how many writes a share-partition gets."""

_DELIVERIES_MAX = 5
_UPDATES_A_SNAPSHOT = 500
_STATE_EPOCH = 2
_POISON, _CRASH = 0.1, 0.02
"""How often a fetch has a poison record, and how often its consumer crashes."""

_STILL_FROM = 0.8
"""From this part of the time on nobody reads partition 0."""


TimedState = tuple[int, StateRecord]
"""The time of a record in milliseconds, and the record."""


def share_logs(world: GeneratedWorld, count: int) -> dict[int, list[bytes]]:
    """The batches of `count` share groups, by partition of `__share_group_state`."""
    logs: dict[int, list[TimedState]] = {}
    for number in range(count):
        rng = Random(f"{world.seed}/share/{number}")
        topic = world.topics[number % len(world.topics)]
        for partition in range(topic.partitions):
            key = SharePartitionKey(f"jobs-{topic.name}-{number:04d}", topic.topic_id, partition)
            records = _Deliveries(key, topic, world, rng).records()
            logs.setdefault(home_of(key), []).extend(records)
    return {
        partition: [
            state_batch(offset, record, time_ms=at_ms)
            for offset, (at_ms, record) in enumerate(sorted(found, key=lambda one: one[0]))
        ]
        for partition, found in logs.items()
    }


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

    def records(self) -> Iterator[TimedState]:
        world, rng = self._world, self._rng
        begin_ms = world.start_ms + 1100
        times = (begin_ms, begin_ms)
        begun = ShareSnapshot(0, _STATE_EPOCH, 0, NO_OFFSET, *times)
        yield begin_ms, (self._key, begun)
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

    def _step(self, at_ms: int, written: list[_Range]) -> TimedState:
        """The write of one step. It names the start offset before it, as a leader does."""
        start = self._start
        self._updates += 1
        ended = sum(one.last - one.first + 1 for one in self._ranges if one.state != AVAILABLE)
        value: ShareSnapshot | ShareUpdate
        if self._updates > _UPDATES_A_SNAPSHOT:
            self._epoch, self._updates = self._epoch + 1, 0
            batches = tuple(one.batch for one in self._ranges)
            times = (at_ms, at_ms)
            value = ShareSnapshot(self._epoch, _STATE_EPOCH, 0, start, *times, batches, ended)
        else:
            batches = tuple(one.batch for one in written)
            value = ShareUpdate(self._epoch, 0, start, batches, ended)
        while self._ranges and self._ranges[0].state != AVAILABLE:
            self._start = self._ranges.pop(0).last + 1
        return at_ms, (self._key, value)
