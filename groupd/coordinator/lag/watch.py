"""Looks at all groups of this process every few seconds: their lag and their judgement.

A round finds out the positions of groups (`positions`), asks for the ends of those logs once, and
then works group by group, all in slices of the admin port's queue. It only reads. Groups without a
position are skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from typing import Any

import structlog
from msgspec import Struct, field

from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.core.group_type import Positions
from groupd.coordinator.core.slices import Pace, Steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.coordinator.lag.growth import Found, Growth, LogEnds, Trend
from groupd.coordinator.lag.judgement import (
    BAD,
    ROUNDS,
    SEVERITY,
    Judgement,
    Progress,
    SilentMember,
    monotonic_of,
    records_behind,
    silent_members,
)
from groupd.coordinator.lag.positions import AgeLookups, GroupPositions
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock, elapsed_ns, pause
from groupd.coordinator.runtime.long_work import LongWork
from groupd.protocol.messages import TopicPartition
from groupd.storage.log import LogError

log = structlog.get_logger("groupd.lag")

PARTITIONS_MAX = 200_000
"""The most partitions that a round looks at. A partition counts once for each group that reads it.
Groups that do not fit are left out."""

TRENDS_MAX = 20_000
"""How many partitions have a trend at most. Partitions that are never behind need none."""

_COST = 8
"""How many items of `Pace` a partition counts: some microseconds."""


Chosen = list[tuple[str, Positions, ShardState]]
"""The groups that a round looks at: id, positions, state of the shard."""


class PartitionLag(Progress, gc=False):
    """One partition of a group as of the last round. `age_ms`: how old the first unread record is;
    None without lag, or if it is not known yet. `judgement`: None if it is not known yet."""

    end: int = -1
    age_ms: int | None = None
    judgement: Judgement | None = None


class Totals(Struct, gc=False):
    """A group as a whole: records, the oldest age, the worst judgement. `worst`: of the partitions
    with that judgement the one with the most lag; `others`: how many others have it. `not_ok`: how
    many partitions have a bad judgement. `unknown`: how many partitions with lag have no known age
    yet."""

    lag: int = 0
    oldest_ms: int | None = None
    unknown: int = 0
    judgement: Judgement | None = Judgement.OK
    worst: TopicPartition | None = None
    worst_lag: int = -1
    others: int = -1
    not_ok: int = 0

    @property
    def age_ms(self) -> int | None:
        """The oldest age; None without lag, or until the ages of all partitions with lag are
        known."""
        return None if self.unknown else self.oldest_ms

    def add(self, partition: TopicPartition, one: PartitionLag) -> None:
        self.lag += one.lag
        self.not_ok += one.judgement in BAD
        if one.age_ms is None:
            self.unknown += one.lag > 0
        elif self.oldest_ms is None or one.age_ms > self.oldest_ms:
            self.oldest_ms = one.age_ms
        if one.judgement is not self.judgement:
            if SEVERITY[one.judgement] < SEVERITY[self.judgement]:
                return
            self.judgement, self.worst_lag, self.others = one.judgement, -1, -1
        self.others += 1
        if one.lag > self.worst_lag:
            self.worst, self.worst_lag = partition, one.lag


class GroupLag(Struct):
    """A group as of the last round: its partitions by topic and number, and as a whole. `silent`:
    its members that commit nothing, the one that has been silent for longest first."""

    topics: dict[str, dict[int, PartitionLag]] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    silent: list[SilentMember] = field(default_factory=list)
    trend: Trend = field(default_factory=Trend)

    def partition(self, topic: str, number: int) -> PartitionLag | None:
        return self.topics.get(topic, {}).get(number)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionLag]]:
        """Yields all partitions. A round may change them meanwhile."""
        for topic, partitions in list(self.topics.items()):
            for number in list(partitions):
                one = partitions.get(number)
                if one is not None:
                    yield (topic, number), one


class LagWatch:
    """Looks at the lag of groups in rounds. `settings`: how often. `clock`: real time."""

    def __init__(
        self,
        broker: Broker,
        logs: LogEnds,
        clock: Clock,
        work: LongWork,
        settings: AdminSettings,
    ) -> None:
        self.groups: dict[str, GroupLag] = {}
        """The groups that have a position, by id."""
        self.bounds: Found = {}
        """Start and end of the logs in which groups have positions, as of the last round."""
        self.trends: dict[tuple[str, TopicPartition], Trend] = {}
        """The last hour of the partitions that were behind in it, by group id and partition."""
        self.round_ms = 0.0
        """How long the last round took, in ms, without asking for positions before it and looking
        up ages after it."""
        self.rounds = 0
        self.round_at = clock.now()
        """The time of the last round; before the first round, the time when this object was
        made."""
        self.left_out = 0
        """How many partitions the last round left out because there are too many."""
        self.positions = GroupPositions(broker, clock, work, settings.lag_interval_ms)
        self._logs = logs
        self._clock = clock
        self._work = work
        self._settings = settings
        self._growth: dict[str, dict[int, Growth]] = {}
        self._lookups = AgeLookups(logs, clock, work, settings.lag_interval_ms)
        self._task: asyncio.Task[None] | None = None

    @property
    def window_ms(self) -> int:
        """How far back a judgement looks."""
        return ROUNDS * self._settings.lag_interval_ms

    def now(self) -> Instant:
        """The time by which it looks. Ages and judgements use the monotonic part."""
        return self._clock.now()

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
        """Do one round. Raises LogError."""
        await self.positions.ask()
        began_ns = elapsed_ns()
        wanted, chosen = await self._work.run(self._wanted())
        bounds = await self._logs.look(wanted)
        now = self._clock.now()
        await self._work.run(self._grow(bounds, now.monotonic_ms))
        await self._work.run(self._compute(chosen, now))
        self.round_ms = (elapsed_ns() - began_ns) / 1e6
        self.round_at = now
        self.rounds += 1
        await self._lookups.run(self._growth)

    def _wanted(self) -> Steps[tuple[dict[str, set[int]], Chosen]]:
        """Returns the partitions to look at, by topic, and the groups that read them. A group is
        left out as a whole if it does not fit."""
        wanted: dict[str, set[int]] = {}
        chosen: Chosen = []
        room, left_out, pace = PARTITIONS_MAX, 0, Pace()
        for group_id, topics, state in self.positions.all():
            count = sum(map(len, topics.values()))
            if count <= room:
                room -= count
                chosen.append((group_id, topics, state))
                for topic, partitions in topics.items():
                    wanted.setdefault(topic, set()).update(partitions)
            else:
                left_out += count
            if pace.due(2 + len(topics) + count // 8):
                yield
        self.left_out = left_out
        return wanted, chosen

    def _grow(self, bounds: Found, now_ms: int) -> Steps[None]:
        """Note where the logs end now. `now_ms`: monotonic."""
        growth, pace = self._growth, Pace()
        for topic in [topic for topic in growth if topic not in bounds]:
            del growth[topic]
        for topic, partitions in bounds.items():
            grown = growth.setdefault(topic, {})
            for number, found in partitions.items():
                one = grown.get(number)
                if one is None:
                    one = grown[number] = Growth()
                one.add(now_ms, found.end)
                if pace.due(_COST):
                    yield
            _drop_others(grown, partitions)
        self.bounds = bounds

    def _compute(self, chosen: Chosen, now: Instant) -> Steps[None]:
        """Compute the lag of the chosen groups. The objects of a group are changed in place:
        thousands of new objects in each round would be work for the garbage collector."""
        present: set[str] = set()
        pace = Pace()
        yield from self._lookups.begin()
        for group_id, topics, state in chosen:
            # The group may be gone since it was chosen.
            there = group_id in state.groups
            if there and (yield from self._group(group_id, topics, state, now)):
                present.add(group_id)
            if pace.due(_COST * (1 + sum(map(len, topics.values())))):
                yield
        _drop_others(self.groups, present)
        for key, trend in list(self.trends.items()):
            group_id, (topic, number) = key
            group = self.groups.get(group_id)
            if group is None or not group.partition(topic, number) or trend.flat:
                del self.trends[key]
            if pace.due(_COST):
                yield

    def _group(
        self, group_id: str, topics: Positions, state: ShardState, now: Instant
    ) -> Steps[bool]:
        """Compute the lag of one group. Returns whether it reads a partition that exists."""
        group, pace = self.groups.get(group_id) or GroupLag(), Pace()
        unknown: list[tuple[TopicPartition, int]] = []
        lag, waits = 0, False
        for topic in list(topics):
            partitions, bounds = topics.get(topic, {}), self.bounds.get(topic, {})
            known = group.topics.setdefault(topic, {})
            numbers = list(partitions)
            present = 0
            for number in numbers:
                stored = partitions.get(number)
                if stored is not None and number in bounds:
                    committed = stored.offset, stored.commit_timestamp_ms
                    partition = topic, number
                    one = known[number] = self._seen(known.get(number), committed, partition, now)
                    lag += one.lag
                    waits = waits or (one.lag > 0 and one.committed_ms < now.monotonic_ms)
                    present += 1
                    if one.lag or self.trends:
                        self._follow(group_id, partition, one.lag, now.monotonic_ms)
                    if one.lag and one.age_ms is None:
                        unknown.append((partition, max(one.offset, bounds[number].start)))
                if pace.due(_COST):
                    yield
            if len(known) != present:
                _drop_others(known, partitions.keys() & bounds.keys())
        _drop_others(group.topics, [topic for topic in topics if group.topics.get(topic)])
        if not group.topics:
            return False
        for partition, first in unknown:
            self._lookups.want(partition, first, lag)
            if pace.due():
                yield
        group.silent = []
        if waits:  # otherwise each partition with lag got a commit in this round
            group.silent = yield from silent_members(group.partitions, group_id, state, now)
        yield from self._judge(group, now)
        group.trend.add(now.monotonic_ms, group.totals.lag)
        self.groups[group_id] = group
        return True

    def _judge(self, group: GroupLag, now: Instant) -> Steps[None]:
        totals, pace = Totals(), Pace()
        silent = {one.member_id for one in group.silent}
        for partition, one in group.partitions():
            is_silent = one.owner in silent
            one.judgement = one.judge(now.monotonic_ms, self.window_ms, is_silent=is_silent)
            totals.add(partition, one)
            if pace.due(_COST):
                yield
        group.totals = totals

    def _seen(
        self,
        one: PartitionLag | None,
        committed: tuple[int, int],
        partition: TopicPartition,
        now: Instant,
    ) -> PartitionLag:
        """Returns a partition after this round. `one`: the partition after the last round; None: it
        is new."""
        (offset, commit_ms), (topic, number), now_ms = committed, partition, now.monotonic_ms
        bounds = self.bounds[topic][number]
        lag = records_behind(offset, bounds.start, bounds.end)
        if one is None:
            committed_ms = monotonic_of(commit_ms, now)
            one = PartitionLag(offset, lag, commit_ms, now_ms, committed_ms, now_ms)
        one.see(offset, lag, commit_ms, now_ms)
        one.end, one.age_ms = bounds.end, None
        if lag:
            first, growth = max(offset, bounds.start), self._growth[topic][number]
            one.age_ms = growth.age_ms(first, now_ms) if growth.knows(first) else None
        return one

    def _follow(self, group_id: str, partition: TopicPartition, lag: int, now_ms: int) -> None:
        """Keep the last hour of a partition that is or was behind."""
        trend = self.trends.get((group_id, partition))
        if trend is None:
            if not lag or len(self.trends) >= TRENDS_MAX:
                return
            trend = self.trends[group_id, partition] = Trend()
        trend.add(now_ms, lag)


def _drop_others(known: dict[Any, Any], wanted: Collection[Any]) -> None:
    """Drop the keys that are not wanted any more. Mostly there are none, so the sizes are compared
    first."""
    if len(known) != len(wanted):
        for key in known.keys() - set(wanted):
            del known[key]
