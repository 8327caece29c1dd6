"""The positions of groups in their partitions (`GroupPositions`), also those that only another
system knows; and when records from before the first round were written, which is looked up in the
logs (`AgeLookups`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import structlog
from msgspec import Struct

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import Positions
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.slices import Pace, Steps, chunks, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import OutsideCall
from groupd.coordinator.lag.growth import Growth, LogEnds
from groupd.coordinator.lag.judgement import monotonic_of
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock, pause
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.messages import TopicPartition
from groupd.storage.log import LogCorrupt, LogError

# Ages of records ----------------------------------------------------------------------------

# Each look-up reads one batch from the store. So a round makes look-ups one after the other, and
# only for a part of the time between rounds. The partitions of the groups with the most lag come
# first. Until a partition has had its turn, the age of its records is not known.

log = structlog.get_logger("groupd.lag")

TIME_SHARE = 5
"""Look-ups may take this part of the time between two rounds: one fifth."""

FAILURES_MAX = 10
"""After this many failures in one round the store is not asked again before the next round."""


class _Wanted(Struct, gc=False):
    """The first record whose time is wanted, and the lag of the group that has not read it."""

    offset: int
    lag: int


Growths = Mapping[str, Mapping[int, Growth]]
"""Topic -> partition -> its growth."""


class AgeLookups:
    """Looks up when records were written. `interval_ms`: the time between two rounds. A partition
    whose look-up has failed comes last from then on, so that it does not delay the others. If the
    log is damaged there, it is not asked again."""

    def __init__(self, logs: LogEnds, clock: Clock, work: LongWork, interval_ms: int) -> None:
        self._logs = logs
        self._clock = clock
        self._work = work
        self._time_ms = interval_ms // TIME_SHARE
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._failed: set[TopicPartition] = set()

    def begin(self) -> Steps[None]:
        """Begin a round: forget what was wanted. What is still wanted is passed to `want` again."""
        pace = Pace()
        while self._wanted:
            self._wanted.popitem()
            if pace.due():
                yield

    def want(self, partition: TopicPartition, offset: int, lag: int) -> None:
        """Ask for the time of the record at `offset`, for a group with a lag of `lag` records in
        all."""
        known = self._wanted.get(partition)
        if known is None:
            self._wanted[partition] = _Wanted(offset, lag)
            return
        known.offset = min(known.offset, offset)
        known.lag = max(known.lag, lag)

    async def run(self, growths: Growths) -> None:
        """Look up as many times as there is time for, and add them to `growths`."""
        self._failed = {partition for partition in self._failed if partition in self._wanted}
        failures = 0
        until_ms = self._clock.monotonic_ms() + self._time_ms
        for _, _, partition in await self._work.run(sorted_in_steps(self._in_order())):
            failures += not await self._look_up(partition, growths)
            if failures >= FAILURES_MAX or self._clock.monotonic_ms() >= until_ms:
                return

    def _in_order(self) -> Iterator[tuple[bool, int, TopicPartition]]:
        for partition, one in self._wanted.items():
            yield partition in self._failed, -one.lag, partition

    async def _look_up(self, partition: TopicPartition, growths: Growths) -> bool:
        """Look up one time. Returns False if the store could not be asked."""
        (topic, number), offset = partition, self._wanted[partition].offset
        try:
            written_ms = await self._logs.written_ms(topic, number, offset)
        except LogCorrupt as error:
            log.warning(
                "a record has no known age", topic=topic, partition=number, error=str(error)
            )
            written_ms = None
        except LogError as error:
            if partition not in self._failed:
                self._failed.add(partition)
                log.warning(
                    "the age of records is not known yet",
                    topic=topic,
                    partition=number,
                    error=str(error),
                )
            return False
        now = self._clock.now()
        growth = growths.get(topic, {}).get(number)
        if growth is not None:
            if written_ms is None or written_ms < 0:
                written_ms = now.wall_ms  # not known: `seed` counts it as old as the first round
            growth.seed(offset, monotonic_of(written_ms, now))
        return True


# Positions ----------------------------------------------------------------------------------

CALLS_AT_ONCE = 100
"""At most this many groups are asked about at a time."""


class GroupPositions:
    """Asks once in each round for the positions that are not in this process. It waits for answers
    for a part of `interval_ms`, the time between two rounds. A group without an answer in this
    round keeps the positions of its last answer. Before its first answer it has none."""

    def __init__(self, broker: Broker, clock: Clock, work: LongWork, interval_ms: int) -> None:
        self._broker = broker
        self._clock = clock
        self._work = work
        self._time_ms = interval_ms // TIME_SHARE
        self._answers: dict[str, Positions] = {}
        self._asked: dict[str, int] = {}
        """The last round in which each group was asked about."""
        self._round = 0
        self._failing = False

    def of(self, state: ShardState, store: OffsetStore, group: Group) -> Positions:
        """Returns the positions of a group, as far as they are known. They may change while the
        caller reads them."""
        found = type_of(group).positions(state, store, group)
        return self._answers.get(group.group_id, {}) if isinstance(found, OutsideCall) else found

    def all(self) -> Iterator[tuple[str, Positions, ShardState]]:
        """Yields the id of each group of this process, its positions, and the state of its
        shard."""
        for group, state, store in self._groups():
            yield group.group_id, self.of(state, store, group), state

    def _groups(self) -> Iterator[tuple[Group, ShardState, OffsetStore]]:
        for shard in list(self._broker.shards):
            if shard.state is CoordinatorState.ACTIVE:
                state, store = shard.shard.state, shard.shard.offsets.store
                for group in list(state.groups.values()):
                    yield group, state, store

    async def ask(self) -> None:
        """Ask for the positions that are not in this process."""
        calls = await self._work.run(self._calls())
        self._round += 1
        until_ms = self._clock.monotonic_ms() + self._time_ms
        failures: list[str] = []
        for some in chunks(calls, CALLS_AT_ONCE):
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                break
            self._asked.update((call.group_id, self._round) for call in some)
            failures += await self._ask_some(some, left_ms)
        if failures and not self._failing:
            log.warning(
                "the positions of groups could not be asked for",
                groups=len(failures),
                error=failures[0],
            )
        self._failing = bool(failures)

    async def _ask_some(self, calls: list[OutsideCall], left_ms: int) -> list[str]:
        """Returns why there is no answer, for each call without one."""
        tasks = [asyncio.ensure_future(self._broker.calls.answer(call)) for call in calls]
        over = asyncio.ensure_future(pause(self._clock, left_ms))
        try:
            heard = {*tasks}
            while heard and not over.done():
                done, _ = await asyncio.wait({over, *heard}, return_when=asyncio.FIRST_COMPLETED)
                heard -= done
        finally:
            for task in (over, *tasks):
                task.cancel()
        failures = []
        for call, task in zip(calls, tasks, strict=True):
            answer: Any = TimeoutError("no answer in time")
            if task.done() and not task.cancelled():
                answer = task.result()
            if isinstance(answer, Mapping):
                self._answers[call.group_id] = answer
            elif isinstance(answer, Exception):
                failures.append(f"{call.group_id}: {answer}")
            else:
                failures.append(f"{call.group_id}: no positions but {type(answer).__name__}")
        return failures

    def _calls(self) -> Steps[list[OutsideCall]]:
        """Returns a call for each group whose positions are not in this process. Groups that were
        never asked about, or longest ago, come first."""
        calls: dict[str, OutsideCall] = {}
        pace = Pace()
        for group, state, store in self._groups():
            found = type_of(group).positions(state, store, group)
            if isinstance(found, OutsideCall):
                calls[group.group_id] = found
            if pace.due():
                yield
        for group_id in self._asked.keys() - calls.keys():
            del self._asked[group_id]
            self._answers.pop(group_id, None)
        order = yield from sorted_in_steps((self._asked.get(one, 0), one) for one in calls)
        return [calls[group_id] for _, group_id in order]
