"""Rounds over groups: what they find, what they leave out, and what they ask of logs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import Mock

import pytest
from msgspec import Struct, field

from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset
from groupd.coordinator.core.slices import WORK_ITEMS, Steps
from groupd.coordinator.core.types import Instant
from groupd.coordinator.lag import watch
from groupd.coordinator.lag.growth import Bounds, Found, Wanted
from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.positions import FAILURES_MAX
from groupd.coordinator.lag.watch import LagWatch, PartitionLag
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.outside_calls import OutsideCalls
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.messages import TopicId, TopicPartition
from groupd.storage.log import LogCorrupt, LogError, LogUnavailable
from tests.support.manual_clock import ManualClock
from tests.unit.interop.values import assignment

T = TypeVar("T")
START = 1_800_000_000_000
ORDERS = ("orders", 0)


class Logs(Struct):
    """Logs by partition: start, end; when records were written; and the logs that cannot be read.
    `clock` goes on by `takes_ms` with each record that is looked up."""

    bounds: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    written: dict[TopicPartition, int] = field(default_factory=dict)
    asked: list[tuple[TopicPartition, int]] = field(default_factory=list)
    away: bool = False
    broken: dict[TopicPartition, LogError] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=lambda: ManualClock(wall_ms=START))
    takes_ms: int = 0

    async def look(self, wanted: Wanted) -> Found:
        if self.away:
            raise LogUnavailable("away")
        found: Found = {}
        for (topic, number), bounds in self.bounds.items():
            if number in wanted.get(topic, ()):
                found.setdefault(topic, {})[number] = Bounds(*bounds)
        return found

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        self.asked.append(((topic, partition), offset))
        self.clock.advance(self.takes_ms)
        if (topic, partition) in self.broken:
            raise self.broken[topic, partition]
        return self.written.get((topic, partition))


class Bench:
    def __init__(self) -> None:
        self.logs = Logs()
        self.clock = self.logs.clock
        self.store = OffsetStore()
        self.groups: dict[str, ClassicGroup] = {}
        self.state = SimpleNamespace(groups=self.groups, image=MetadataImage())
        shard = SimpleNamespace(offsets=SimpleNamespace(store=self.store), state=self.state)
        self.runtime = SimpleNamespace(state=CoordinatorState.ACTIVE, shard=shard)
        self.calls = OutsideCalls()
        broker: Any = SimpleNamespace(shards=[self.runtime], calls=self.calls)
        self.watch = LagWatch(broker, self.logs, self.clock, LongWork(), AdminSettings())

    @property
    def now(self) -> Instant:
        return self.clock.now()

    def commit(self, group: str, place: TopicPartition, offset: int) -> None:
        self.groups.setdefault(group, ClassicGroup.simple(group))
        stored = StoredOffset(offset, -1, "", self.now.wall_ms, -1, TopicId(bytes(16)), 0)
        self.store.put(group, *place, stored)

    def give(self, group: str, member: str, *places: TopicPartition) -> None:
        """These partitions, and no others, to a member."""
        found = self.groups.setdefault(group, ClassicGroup.simple(group))
        found.protocol_type = CONSUMER_PROTOCOL_TYPE
        topics = {one: [n for topic, n in places if topic == one] for one, _ in places}
        found.members[member] = Mock(member_id=member, assignment=assignment(topics))

    def step(self, ms: int) -> None:
        """Somebody sets the wall clock."""
        self.clock.set_wall(self.now.wall_ms + ms)

    def judged(self, group: str) -> tuple[Judgement | None, int | None]:
        """The judgement of a group, and its age in ms."""
        totals = self.watch.groups[group].totals
        return totals.judgement, totals.age_ms

    async def rounds(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(10_000)
            await self.watch.look()


async def test_a_group_has_the_sum_of_its_lags_and_the_worst_judgement() -> None:
    bench = Bench()
    bench.logs.bounds = {ORDERS: (0, 100), ("orders", 1): (10, 60)}
    bench.commit("billing", ORDERS, 100)
    bench.commit("billing", ("orders", 1), 20)
    bench.commit("other", ("gone", 0), 3)
    await bench.rounds(11)
    billing = bench.watch.groups["billing"]
    assert (billing.totals.lag, billing.totals.judgement) == (40, Judgement.STOPPED)
    assert billing.topics["orders"][0].judgement is Judgement.OK
    assert billing.totals.not_ok == 1
    assert billing.trend.minutes(bench.now.monotonic_ms)[-1] == 40
    assert list(bench.watch.trends) == [("billing", ("orders", 1))]
    assert "other" not in bench.watch.groups  # its topic does not exist
    assert (bench.watch.rounds, bench.watch.left_out) == (11, 0)


async def test_the_age_of_old_records_is_looked_up_once() -> None:
    bench = Bench()
    bench.logs.bounds = {ORDERS: (0, 100)}
    bench.logs.written = {ORDERS: START - 3_600_000}
    bench.commit("billing", ORDERS, 20)
    await bench.rounds(3)
    assert bench.logs.asked == [(ORDERS, 20)]
    age = bench.watch.groups["billing"].totals.age_ms
    assert age == bench.now.wall_ms - (START - 3_600_000)


async def test_a_record_whose_time_nobody_knows_is_as_old_as_the_first_round() -> None:
    bench = Bench()
    bench.logs.bounds = {ORDERS: (0, 100)}
    bench.logs.written = {ORDERS: START + 10**9}  # the producer's clock is ahead
    bench.commit("billing", ORDERS, 20)
    await bench.rounds(4)
    assert bench.watch.groups["billing"].totals.age_ms == 30_000
    assert len(bench.logs.asked) == 1


def filled(sizes: dict[str, int]) -> Bench:
    """Groups that have committed for so many partitions of a topic of their own name, each with
    4 unread records."""
    bench = Bench()
    for group, count in sizes.items():
        for number in range(count):
            bench.logs.bounds[group, number] = (0, 9)
            bench.commit(group, (group, number), 5)
    return bench


async def test_groups_that_are_gone_and_partitions_that_are_too_many_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "PARTITIONS_MAX", 2)
    bench = Bench()
    for number in range(3):
        bench.logs.bounds["orders", number] = (0, 9)
        bench.commit(f"group-{number}", ("orders", number), 5)
    await bench.rounds(1)
    assert list(bench.watch.groups) == ["group-0", "group-1"]
    assert bench.watch.left_out == 1
    del bench.groups["group-0"]
    await bench.rounds(1)
    assert list(bench.watch.groups) == ["group-1", "group-2"]
    assert set(bench.watch.trends) == {(f"group-{one}", ("orders", one)) for one in (1, 2)}
    bench.runtime.state = CoordinatorState.LOADING
    await bench.rounds(1)
    assert bench.watch.groups == {}
    assert bench.watch.trends == {}


async def test_a_group_that_is_too_large_leaves_the_room_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "PARTITIONS_MAX", 100)
    bench = filled({"large": 90, "middle": 50, "small": 5, "other": 6})
    await bench.rounds(1)
    assert list(bench.watch.groups) == ["large", "small"]
    assert bench.watch.left_out == 50 + 6
    bench.runtime.shard.state.groups.pop("large")
    await bench.rounds(1)
    assert bench.watch.groups.keys() == {"middle", "small", "other"}
    assert bench.watch.left_out == 0


FIRST, SECOND = ("orders", 0), ("orders", 1)


def reading() -> Bench:
    """A topic with two partitions of 100 records, all of which the members `a` and `b` have
    committed; one has each."""
    bench = Bench()
    bench.logs.bounds = {FIRST: (0, 100), SECOND: (0, 100)}
    for place, member in ((FIRST, "a"), (SECOND, "b")):
        bench.commit("billing", place, 100)
        bench.give("billing", member, place)
    return bench


async def test_a_member_that_reads_and_does_not_commit_makes_its_group_stalled() -> None:
    """It is named a minute after records began to wait, while the other one goes on."""
    bench = reading()
    await bench.rounds(3)
    found = []
    for at in range(1, 13):
        bench.logs.bounds = {FIRST: (0, 100 + at), SECOND: (0, 100 + at)}
        bench.commit("billing", FIRST, 100 + at)
        await bench.rounds(1)
        group = bench.watch.groups["billing"]
        named = [(one.member_id, one.lag, one.first_partitions) for one in group.silent]
        found.append((group.totals.judgement, named))
    ok, stalled = Judgement.OK, Judgement.STALLED
    assert found == [
        *[(ok, [])] * 5,
        *[(stalled, [("b", at, [SECOND])]) for at in range(6, 13)],
    ]
    assert group.topics["orders"][0].judgement is ok
    assert group.topics["orders"][1].judgement is stalled
    bench.commit("billing", SECOND, 101)
    await bench.rounds(1)
    assert bench.watch.groups["billing"].silent == []
    assert bench.judged("billing")[0] is ok, "its lag has become less"


async def test_a_member_that_commits_for_another_partition_is_not_silent() -> None:
    bench = reading()
    bench.give("billing", "a", FIRST, SECOND)
    del bench.groups["billing"].members["b"]
    await bench.rounds(1)
    for at in range(1, 10):
        bench.logs.bounds = {FIRST: (0, 100 + at), SECOND: (0, 101)}
        bench.commit("billing", FIRST, 100 + at)
        await bench.rounds(1)
        assert bench.judged("billing")[0] is Judgement.OK
    await bench.rounds(1)
    assert bench.watch.groups["billing"].silent == []
    assert bench.judged("billing")[0] is Judgement.STALLED, "the partition stands for a window"


async def test_who_gets_a_partition_with_lag_has_a_minute() -> None:
    bench = reading()
    bench.logs.bounds[SECOND] = (0, 200)
    await bench.rounds(5)
    del bench.groups["billing"].members["b"]
    bench.give("billing", "c", SECOND)
    await bench.rounds(6)
    assert bench.judged("billing")[0] is Judgement.OK
    await bench.rounds(1)
    assert bench.judged("billing")[0] is Judgement.STALLED
    assert [one.member_id for one in bench.watch.groups["billing"].silent] == ["c"]


async def test_after_a_restart_members_have_a_minute_too() -> None:
    """While the daemon was down nobody could commit."""
    bench = reading()
    bench.logs.bounds[SECOND] = (0, 200)
    bench.clock.advance(HOUR)
    await bench.rounds(6)
    assert bench.judged("billing")[0] is Judgement.OK
    await bench.rounds(1)
    assert bench.judged("billing")[0] is Judgement.STALLED


async def test_a_member_that_commits_seldom_may_be_silent_for_twice_as_long() -> None:
    bench = reading()
    seen = []
    for at in range(1, 9 * 3 + 19):
        bench.logs.bounds[SECOND] = (0, 200 + at)
        if at % 9 == 0 and at <= 27:
            bench.commit("billing", SECOND, 100 + at)
        await bench.rounds(1)
        seen.append(bool(bench.watch.groups["billing"].silent))
    assert seen[:18] == [*[False] * 6, True, True, False, *[False] * 5, True, True, True, False]
    assert not any(seen[18:-1]), "the usual distance is known: 90 s"
    assert seen[-1]


async def test_after_a_restart_neither_age_nor_judgement_is_known_at_first() -> None:
    bench = Bench()
    bench.logs.bounds = {FIRST: (0, 5000), SECOND: (0, 100)}
    bench.logs.broken = {FIRST: LogUnavailable("no")}
    bench.commit("billing", FIRST, 386)
    bench.commit("billing", SECOND, 100)
    bench.clock.advance(HOUR)
    await bench.rounds(1)
    assert bench.watch.groups["billing"].totals.lag == 4614
    assert bench.judged("billing") == (None, None)
    await bench.rounds(1)
    assert bench.judged("billing") == (Judgement.STOPPED, None), "the log cannot be asked yet"
    bench.logs.broken.clear()
    bench.logs.written = {FIRST: START - HOUR}
    await bench.rounds(2)
    assert bench.judged("billing") == (Judgement.STOPPED, 2 * HOUR + 40_000)


HOUR = 3_600_000


@pytest.mark.parametrize("step", [-HOUR, HOUR])
async def test_a_step_of_the_wall_clock_hides_no_consumer_that_hangs(step: int) -> None:
    bench = Bench()
    bench.logs.bounds = {ORDERS: (0, 100)}
    bench.commit("billing", ORDERS, 100)
    await bench.rounds(20)
    bench.step(step)
    bench.logs.bounds = {ORDERS: (0, 1000)}
    await bench.rounds(1)
    judgement, age_ms = bench.judged("billing")
    assert judgement is Judgement.OK
    assert age_ms is not None
    assert 0 <= age_ms <= 10_000
    await bench.rounds(9)
    judgement, age_ms = bench.judged("billing")
    assert judgement is Judgement.STOPPED
    assert age_ms is not None
    assert 90_000 <= age_ms <= 100_000
    trend = bench.watch.groups["billing"].trend.minutes(bench.now.monotonic_ms)
    assert trend[-1] == 900
    assert trend[-5] == 0


@pytest.mark.parametrize("step", [-HOUR, HOUR])
async def test_a_step_of_the_wall_clock_accuses_no_consumer_that_commits(step: int) -> None:
    bench = Bench()
    seen = set()
    for at in range(40):
        bench.logs.bounds = {ORDERS: (0, 1000 + at)}
        if at % 2:
            bench.commit("billing", ORDERS, 500 + at * 3)
        if at == 20:
            bench.step(step)
        if at:
            await bench.rounds(1)
        if at > 1:
            judgement, age_ms = bench.judged("billing")
            seen.add(judgement)
            assert age_ms is not None
            assert age_ms <= at * 10_000
    assert seen == {Judgement.OK}
    # Nor does the step make the distance of its commits an hour.
    await bench.rounds(12)
    assert bench.judged("billing")[0] is Judgement.STOPPED


async def test_one_log_that_cannot_be_read_stops_nothing() -> None:
    bench = filled({"a": 1, "b": 1})
    bench.logs.broken = {("a", 0): LogCorrupt("a torn batch")}
    bench.logs.written = {("b", 0): START - HOUR}
    await bench.rounds(3)
    assert bench.watch.rounds == 3
    assert bench.judged("b")[1] == HOUR + 30_000
    assert bench.judged("a")[1] == 20_000, "as old as the first round"
    assert sorted(bench.logs.asked) == [(("a", 0), 5), (("b", 0), 5)]


async def test_logs_that_are_away_come_last_and_again() -> None:
    bench = filled({"away": FAILURES_MAX, "b": 1})
    bench.logs.broken = {("away", at): LogUnavailable("no") for at in range(FAILURES_MAX)}
    await bench.rounds(1)
    assert len(bench.logs.asked) == FAILURES_MAX, "the store may be away: that is enough for now"
    bench.logs.asked.clear()
    await bench.rounds(1)
    assert bench.logs.asked[0] == (("b", 0), 5)
    bench.logs.broken.clear()
    bench.logs.written = {("away", at): START - HOUR for at in range(FAILURES_MAX)}
    await bench.rounds(2)
    assert bench.judged("away")[1] == HOUR + 40_000
    assert bench.watch.rounds == 4


async def test_look_ups_take_a_fifth_of_the_time_and_the_most_lag_comes_first() -> None:
    bench = filled({"small": 30, "large": 31})
    bench.logs.takes_ms = 100
    await bench.rounds(1)
    assert [topic for (topic, _), _ in bench.logs.asked] == ["large"] * 20
    await bench.rounds(1)
    assert [topic for (topic, _), _ in bench.logs.asked[20:]] == ["large"] * 11 + ["small"] * 9
    await bench.rounds(5)
    assert len(bench.logs.asked) == 61, "each of them once"


async def test_a_store_that_is_away_leaves_the_last_round_as_it_was() -> None:
    bench = Bench()
    bench.logs.bounds = {ORDERS: (0, 100)}
    bench.commit("billing", ORDERS, 20)
    assert bench.watch.round_at.wall_ms == START
    await bench.rounds(1)
    bench.logs.away = True
    with pytest.raises(LogUnavailable):
        await bench.rounds(1)
    assert bench.watch.groups["billing"].totals.lag == 80
    assert bench.watch.round_at.wall_ms == START + 10_000, "the metric tells that it is old"


class SlicedWork:
    """A `LongWork` that counts the records of partitions that are looked at between two stops."""

    def __init__(self) -> None:
        self.seen = self.most = 0

    async def run(self, steps: Steps[T]) -> T:
        while True:
            self.seen = 0
            try:
                next(steps)
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                self.most = max(self.most, self.seen)


async def test_a_round_over_many_small_groups_lets_others_work_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = filled({f"group-{number}": 10 for number in range(300)})
    work: Any = SlicedWork()
    bench.watch._work = work
    seen = bench.watch._seen

    def counted(*arguments: Any) -> PartitionLag:
        work.seen += 1
        return seen(*arguments)

    monkeypatch.setattr(bench.watch, "_seen", counted)
    await bench.rounds(1)
    assert 10 <= work.most <= 2 * 10 + WORK_ITEMS // 8
