"""Looks at all groups of this process every few seconds: their lag and how they judge.

A round takes the committed offsets of every group, asks for the ends of their logs once, and then
works group by group, all in slices of the admin port's queue. It only reads. Members that have
never committed are not looked at: their offsets may be kept elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import structlog
from msgspec import Struct

from groupd.coordinator.admin_settings import AdminSettings
from groupd.coordinator.core.offsets.store import ByPartition
from groupd.coordinator.core.slices import Steps, Work
from groupd.coordinator.lag.ends import Bounds, LogEnds, TopicPartition
from groupd.coordinator.lag.growth import Growth
from groupd.coordinator.lag.judgement import (
    ROUNDS,
    SEVERITY,
    Judgement,
    Progress,
    records_behind,
    seen_first,
)
from groupd.coordinator.lag.trend import Trend
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock, elapsed_ns, pause
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.storage.log import LogError

log = structlog.get_logger("groupd.lag")

SEEDS_MAX = 20
"""Looks into logs in one round, for records from before the first round."""

TRENDS_MAX = 20_000
"""Partitions whose last hour is kept. Those that are never behind need none."""

_COST = 4
"""What a partition counts as in `Work`: some microseconds."""


class PartitionLag(Struct, gc=False):
    """One partition of a group in the last round. `lag`: records; `age_ms`: how long the first of
    them has been there, None without lag."""

    progress: Progress
    end: int = -1
    lag: int = 0
    age_ms: int | None = None
    judgement: Judgement = Judgement.OK


class GroupLag(Struct):
    """A group in the last round: the sum of its partitions, the oldest age, the worst judgement."""

    partitions: dict[TopicPartition, PartitionLag]
    trend: Trend
    lag: int = 0
    age_ms: int | None = None
    judgement: Judgement = Judgement.OK


Committed = list[tuple[TopicPartition, int, int]]
"""Partition, committed offset, and when it was committed in wall-clock ms."""


class LagWatch:
    """`settings`: how often it looks, and at how many partitions. `clock`: real time."""

    def __init__(
        self,
        broker: Broker,
        logs: LogEnds,
        clock: Clock,
        work: LongWork,
        settings: AdminSettings,
    ) -> None:
        self.groups: dict[str, GroupLag] = {}
        """By group id, those that have committed something."""
        self.bounds: Mapping[TopicPartition, Bounds] = {}
        """Start and end of the logs that groups have committed for, as of the last round."""
        self.trends: dict[tuple[str, TopicPartition], Trend] = {}
        """The last hour of the partitions that were behind in it, by group id and partition."""
        self.round_ms = 0.0
        """How long the last round took."""
        self.rounds = 0
        self.left_out = 0
        """Partitions that the last round left out because there are too many."""
        self.rounded = asyncio.Event()
        """Is set at the end of each round; who waits for the next one clears it."""
        self._broker = broker
        self._logs = logs
        self._clock = clock
        self._work = work
        self._settings = settings
        self._growth: dict[TopicPartition, Growth] = {}
        self._unknown: dict[TopicPartition, int] = {}
        """Offsets from before the first round, whose time is to be looked up in the log."""
        self._task: asyncio.Task[None] | None = None

    @property
    def window_ms(self) -> int:
        """How far back a judgement looks."""
        return ROUNDS * self._settings.lag_interval_ms

    def start(self) -> None:
        self._task = asyncio.create_task(self._go_round())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _go_round(self) -> None:
        while True:
            try:
                await self.look()
            except LogError as error:
                log.warning("the lag of groups is not known", error=str(error))
            except Exception:
                log.exception("a round over the lag of groups failed")
            await pause(self._clock, self._settings.lag_interval_ms)

    async def look(self) -> None:
        """One round. Raises LogError."""
        began_ns = elapsed_ns()
        found = await self._work.run(self._committed())
        places = list(dict.fromkeys(place for _, some in found for place, _, _ in some))
        bounds = await self._logs.look(places)
        await self._work.run(self._take_in(found, bounds, self._clock.now().wall_ms))
        await self._seed()
        self.round_ms = (elapsed_ns() - began_ns) / 1e6
        self.rounds += 1
        self.rounded.set()

    def _committed(self) -> Steps[list[tuple[str, Committed]]]:
        """The committed offsets of all groups."""
        found: list[tuple[str, Committed]] = []
        room, left_out, work = self._settings.lag_partitions_max, 0, Work()
        for group_id, topics in self._offsets():
            some: Committed = []
            for topic, partitions in topics.items():
                room -= len(partitions)
                if room < 0:
                    left_out += len(partitions)
                    continue
                some += [
                    ((topic, number), stored.offset, stored.commit_timestamp_ms)
                    for number, stored in list(partitions.items())
                ]
                if work.enough(1 + len(partitions)):
                    yield
            if some:
                found.append((group_id, some))
        self.left_out = left_out
        return found

    def _offsets(self) -> Iterator[tuple[str, dict[str, ByPartition]]]:
        for shard in list(self._broker.shards):
            if shard.state is CoordinatorState.ACTIVE:
                store = shard.shard.offsets.store
                for group_id in list(shard.shard.state.groups):
                    yield group_id, dict(store.topics(group_id))

    def _take_in(
        self,
        found: list[tuple[str, Committed]],
        bounds: Mapping[TopicPartition, Bounds],
        now_ms: int,
    ) -> Steps[None]:
        work = Work()
        growth: dict[TopicPartition, Growth] = {}
        for place, (_, end) in bounds.items():
            grown = growth[place] = self._growth.get(place) or Growth()
            grown.add(now_ms, end)
            if work.enough(_COST):
                yield
        self._growth, self.bounds = growth, bounds
        self._unknown.clear()
        groups: dict[str, GroupLag] = {}
        for group_id, committed in found:
            before = self.groups.get(group_id)
            group = GroupLag({}, Trend() if before is None else before.trend)
            for place, offset, commit_ms in committed:
                if place in bounds:
                    self._partition(group_id, group, before, place, (offset, commit_ms), now_ms)
                if work.enough(_COST):
                    yield
            if group.partitions:
                group.trend.add(now_ms, group.lag)
                groups[group_id] = group
        self.groups = groups
        for key, trend in list(self.trends.items()):
            if key[0] not in groups or key[1] not in groups[key[0]].partitions or trend.flat:
                del self.trends[key]
            if work.enough():
                yield

    def _partition(
        self,
        group_id: str,
        group: GroupLag,
        before: GroupLag | None,
        place: TopicPartition,
        committed: tuple[int, int],
        now_ms: int,
    ) -> None:
        offset, commit_ms = committed
        start, end = self.bounds[place]
        lag = records_behind(offset, start, end)
        known = None if before is None else before.partitions.get(place)
        if known is None:
            known = PartitionLag(seen_first(offset, lag, commit_ms, now_ms))
        else:
            known.progress.see(offset, lag, commit_ms, now_ms)
        known.end, known.lag, known.age_ms = end, lag, None
        if lag:
            growth, first = self._growth[place], max(offset, start)
            known.age_ms = growth.age_ms(first, now_ms)
            if not growth.knows(first):
                self._unknown[place] = min(first, self._unknown.get(place, first))
            group.age_ms = max(group.age_ms or 0, known.age_ms or 0)
        known.judgement = known.progress.judge(now_ms, self.window_ms)
        group.partitions[place] = known
        group.lag += lag
        if SEVERITY[known.judgement] > SEVERITY[group.judgement]:
            group.judgement = known.judgement
        self._follow(group_id, place, lag, now_ms)

    def _follow(self, group_id: str, place: TopicPartition, lag: int, now_ms: int) -> None:
        """Keep the last hour of a partition that is, or was, behind."""
        trend = self.trends.get((group_id, place))
        if trend is None:
            if not lag or len(self.trends) >= TRENDS_MAX:
                return
            trend = self.trends[group_id, place] = Trend()
        trend.add(now_ms, lag)

    async def _seed(self) -> None:
        """Look up when records were written that were there before the first round."""
        for place, offset in list(self._unknown.items())[:SEEDS_MAX]:
            written_ms = await self._logs.written_ms(place, offset)
            now_ms = self._clock.now().wall_ms
            known = written_ms is not None and 0 <= written_ms <= now_ms
            growth = self._growth.get(place)
            if growth is not None:
                growth.seed(offset, written_ms if known and written_ms is not None else now_ms)
