"""Shards whose logs were empty at the start: they are made when somebody first asks for them."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.offset_metadata_manager import SWEEP_DEADLINE
from groupd.coordinator.runtime.shard_state import AbsentShard, CoordinatorState
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import ListGroupsRequest
from groupd.storage.log import Append
from groupd.testing.harness import GroupCoordinator
from tests.unit.runtime.harness import Bench, commit, commit_errors, committed, fetch, settle

ACTIVE, LOADING = CoordinatorState.ACTIVE, CoordinatorState.LOADING
HOUR_MS = 3_600_000


def made(bench: Bench) -> list[int]:
    return [shard.partition for shard in bench.broker.shards]


async def test_nobody_has_asked_for_any_and_yet_all_serve() -> None:
    bench = await Bench(shards=4).start()
    assert made(bench) == []
    assert bench.broker.served.states == 4 * [ACTIVE]
    assert bench.broker.served.not_ready() is None
    assert bench.broker.idle
    assert [bench.broker.served.state(number) for number in (0, 3, 4)] == [(0, 0), (0, 0), None]
    listed = await bench.answer(ListGroupsRequest())
    assert (listed.error, list(listed.groups)) == (ErrorCode.NONE, [])
    bench.broker.on_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    assert made(bench) == [], "neither a list nor a config needs a shard"
    await bench.broker.close()


async def test_a_request_makes_its_shard_and_no_other() -> None:
    bench = await Bench(shards=4).start()
    bench.broker.on_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    assert commit_errors(await bench.answer(commit("g", 7))) == [ErrorCode.NONE]
    shard = bench.broker.shard_of("g")
    assert bench.broker.shards == [shard]
    assert bench.broker.own_shard_of("g") is shard
    assert bench.broker.served.states == 4 * [ACTIVE]
    assert shard.shard.state.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
    again = await bench.restart()
    assert made(again) == [shard.partition], "only its log is read"
    assert committed(await again.answer(fetch("g"))) == [7]
    await again.broker.close()


async def test_the_shards_stand_in_order_whoever_is_asked_first() -> None:
    bench = await Bench(shards=4).start()
    for number in (2, 0, 3):
        assert bench.broker.served.get(number) is not None
    assert made(bench) == [0, 2, 3]
    await bench.broker.close()


async def test_its_timers_run_from_the_start_of_the_broker() -> None:
    """Otherwise it would depend on who looks at a group when its retention is checked."""
    bench = await Bench().start()
    interval_ms = bench.config.offsets_retention_check_interval_ms
    due_ms = bench.clock.now().monotonic_ms + interval_ms
    bench.clock.advance(interval_ms // 2)
    await bench.answer(commit("g", 7))
    deadlines = bench.shard.shard.state.deadlines
    assert SWEEP_DEADLINE not in deadlines.pop_due(due_ms - 1)
    assert SWEEP_DEADLINE in deadlines.pop_due(due_ms)
    await bench.broker.close()


async def test_a_compacted_log_without_a_history_is_not_taken_for_an_empty_one() -> None:
    bench = Bench(shards=2)
    await bench.store.start()
    await bench.store.open("__consumer_offsets-1")
    await bench.store.append([Append("__consumer_offsets-1", 1, 0, 0, 0, b"\x00" * 80)])
    await bench.start()
    assert made(bench) == [1]
    assert bench.broker.served.states == [CoordinatorState.FAILED, ACTIVE]
    await bench.broker.close()


async def test_before_the_logs_are_open_and_after_the_end_none_can_be_made() -> None:
    bench = Bench(shards=2)
    bench.broker.started = True
    assert bench.broker.served.states == 2 * [LOADING]
    assert not bench.broker.idle
    shard: Any = bench.broker.shard_of("g")
    assert isinstance(shard, AbsentShard)
    assert shard.state is LOADING
    assert bench.broker.own_shard_of("g") is None
    await bench.start()
    await bench.broker.close()
    await settle()
    assert bench.broker.served.states == []
    assert bench.broker.shard_of("g").state is CoordinatorState.CLOSED
    assert made(bench) == []


def test_a_broker_for_a_test_begins_without_shards() -> None:
    """What takes the time of its start is what it makes."""
    with GroupCoordinator.start(topics={"orders": 6}) as coordinator:
        parts: Any = coordinator._host._engine.daemon.parts  # type: ignore[union-attr]
        assert parts.broker.shards == []
        assert parts.transactions.shards == {}
        coordinator.commit("billing", {("orders", 0): 5})
        assert len(parts.broker.shards) == 1
        assert parts.transactions.shards == {}
