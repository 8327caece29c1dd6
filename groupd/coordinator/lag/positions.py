"""Where groups are in their partitions, also where somebody outside of the shard knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import structlog

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import Positions
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.slices import Pace, Steps, chunks, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import OutsideCall
from groupd.coordinator.lag.lookups import TIME_SHARE
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock, pause
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_state import CoordinatorState

log = structlog.get_logger("groupd.lag")

ASKED_AT_ONCE = 100
"""At most this many groups are asked about at a time."""


class GroupPositions:
    """Asks once in each round for the positions that lie elsewhere. It waits for answers for a part
    of `interval_ms`, the time between two rounds. A group without an answer in this round keeps the
    positions of its last answer. Before its first answer it has none."""

    def __init__(self, broker: Broker, clock: Clock, work: LongWork, interval_ms: int) -> None:
        self._broker = broker
        self._clock = clock
        self._work = work
        self._time_ms = interval_ms // TIME_SHARE
        self._answers: dict[str, Positions] = {}
        self._asked: dict[str, int] = {}
        """In which round a group was asked for last."""
        self._round = 0
        self._failing = False

    def of(self, state: ShardState, store: OffsetStore, group: Group) -> Positions:
        """Where a group is, as far as it is known. Others may change it while it is read."""
        found = type_of(group).positions(state, store, group)
        return self._answers.get(group.group_id, {}) if isinstance(found, OutsideCall) else found

    def all(self) -> Iterator[tuple[str, Positions, ShardState]]:
        """The ids of the groups of this process with their positions, and the state of their
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
        """Ask for the positions that lie elsewhere."""
        calls = await self._work.run(self._calls())
        self._round += 1
        until_ms = self._clock.monotonic_ms() + self._time_ms
        failures: list[str] = []
        for some in chunks(calls, ASKED_AT_ONCE):
            left_ms = until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                break
            self._asked.update((call.group_id, self._round) for call in some)
            failures += await self._ask_some(some, left_ms)
        if failures and not self._failing:
            log.warning("it is not known where groups are", groups=len(failures), error=failures[0])
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
        """One for each group whose positions lie elsewhere, those first that were asked for longest
        ago, or never."""
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
