"""Rounds over groups: what they find, what they leave out, and what they ask of logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct, field

from groupd.coordinator.admin_settings import AdminSettings
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset
from groupd.coordinator.core.types import Instant
from groupd.coordinator.lag.ends import Bounds, TopicPartition
from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.messages import TopicId
from groupd.storage.log import LogUnavailable
from groupd.testing.clock import ManualClock

START = 1_800_000_000_000
ORDERS = ("orders", 0)


class Logs(Struct):
    """Logs by partition: start, end; and when records were written."""

    bounds: dict[TopicPartition, Bounds] = field(default_factory=dict)
    written: dict[TopicPartition, int] = field(default_factory=dict)
    asked: list[tuple[TopicPartition, int]] = field(default_factory=list)
    away: bool = False

    async def look(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        if self.away:
            raise LogUnavailable("away")
        return {place: self.bounds[place] for place in places if place in self.bounds}

    async def written_ms(self, place: TopicPartition, offset: int) -> int | None:
        self.asked.append((place, offset))
        return self.written.get(place)


class Bench:
    def __init__(self, **settings: Any) -> None:
        self.logs = Logs()
        self.clock = ManualClock(wall_ms=START)
        self.store = OffsetStore()
        self.groups: dict[str, object] = {}
        shard = SimpleNamespace(
            offsets=SimpleNamespace(store=self.store), state=SimpleNamespace(groups=self.groups)
        )
        self.runtime = SimpleNamespace(state=CoordinatorState.ACTIVE, shard=shard)
        broker: Any = SimpleNamespace(shards=[self.runtime])
        self.watch = LagWatch(broker, self.logs, self.clock, LongWork(), AdminSettings(**settings))

    @property
    def now(self) -> Instant:
        return self.clock.now()

    def commit(self, group: str, place: TopicPartition, offset: int) -> None:
        self.groups[group] = object()
        stored = StoredOffset(offset, -1, "", self.now.wall_ms, -1, TopicId(bytes(16)), 0)
        self.store.put(group, *place, stored)

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
    assert (billing.lag, billing.judgement) == (40, Judgement.STOPPED)
    assert billing.partitions[ORDERS].judgement is Judgement.OK
    assert billing.trend.minutes(bench.now.wall_ms)[-1] == 40
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
    age = bench.watch.groups["billing"].age_ms
    assert age == bench.now.wall_ms - (START - 3_600_000)


async def test_a_record_whose_time_nobody_knows_is_as_old_as_the_first_round() -> None:
    bench = Bench()
    bench.logs.bounds = {ORDERS: (0, 100)}
    bench.logs.written = {ORDERS: START + 10**9}  # the producer's clock is ahead
    bench.commit("billing", ORDERS, 20)
    await bench.rounds(4)
    assert bench.watch.groups["billing"].age_ms == 30_000
    assert len(bench.logs.asked) == 1


async def test_groups_that_are_gone_and_partitions_that_are_too_many_are_left_out() -> None:
    bench = Bench(lag_partitions_max=2)
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


async def test_a_store_that_is_away_leaves_the_last_round_as_it_was() -> None:
    bench = Bench()
    bench.logs.bounds = {ORDERS: (0, 100)}
    bench.commit("billing", ORDERS, 20)
    await bench.rounds(1)
    bench.logs.away = True
    with pytest.raises(LogUnavailable):
        await bench.rounds(1)
    assert bench.watch.groups["billing"].lag == 80
