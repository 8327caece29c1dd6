"""What an operator is shown of a group, and why it waits."""

from __future__ import annotations

import json
from typing import Any

from groupd.coordinator.core.inspection import list_group_summaries
from groupd.coordinator.runtime.shard_runtime import inspect
from tests.support.inspected import inspect_group
from tests.unit.runtime.harness import (
    Bench,
    commit,
    consumer_beat,
    consumer_join,
    join,
    settle,
    sync,
)


def shown(bench: Bench, group: str) -> dict[str, Any]:
    view = inspect_group(bench.shard.shard.state, group, bench.clock.now())
    assert view is not None
    assert json.loads(json.dumps(view)) == view, "plain data"
    return view


async def test_a_classic_group_names_those_it_waits_for() -> None:
    bench = await Bench(group_initial_rebalance_delay_ms=3000).start()
    joins = [bench.ask(join("g"), version=3) for _ in range(2)]
    view = shown(bench, "g")
    assert (view["state"], view["waiting_for"]) == ("PreparingRebalance", [])
    assert [member["join_parked"] for member in view["members"]] == [True, True]
    bench.clock.advance(6000)
    await settle()
    leader = joins[0][0].leader
    follower = next(r[0].member_id for r in joins if r[0].member_id != leader)
    bench.ask(sync("g", 1, follower, leads=False), version=5)
    view = shown(bench, "g")
    assert (view["state"], view["waiting_for"]) == ("CompletingRebalance", [leader])
    parked = {member["member_id"]: member["sync_parked"] for member in view["members"]}
    assert parked == {leader: False, follower: True}
    assert {entry["kind"] for entry in view["deadlines"]} == {"classic-session", "classic-sync"}
    bench.ask(sync("g", 1, leader), version=5)
    await settle()
    view = shown(bench, "g")
    assert (view["state"], view["waiting_for"], view["leader"]) == ("Stable", [], leader)
    await bench.broker.close()


async def test_a_consumer_group_names_who_holds_what_another_one_waits_for() -> None:
    bench = await Bench().start()
    epoch = (await bench.answer(consumer_join("g", "m1"))).member_epoch
    await bench.answer(consumer_join("g", "m2"))
    view = shown(bench, "g")
    (blocked,) = view["blocked"]
    assert (blocked["member_id"], blocked["topic"], blocked["held_by"]) == ("m2", "t", "m1")
    assert blocked["revoking"] is False
    await bench.answer(consumer_beat("g", "m1", epoch))
    (blocked,) = shown(bench, "g")["blocked"]
    assert blocked["revoking"] is True
    member = shown(bench, "g")["members"][0]
    assert (member["member_id"], member["protocol"]) == ("m1", "consumer")
    assert member["pending_revocation"] == {"t": [blocked["partition"]]}
    await bench.broker.close()


async def test_deadlines_of_other_groups_are_not_shown_and_overrides_are() -> None:
    bench = await Bench().start()
    await bench.answer(consumer_join("g", "m1"))
    await bench.answer(consumer_join("h", "m2"))
    bench.broker.on_group_configs("g", {"consumer.session.timeout.ms": "50000"})
    view = shown(bench, "g")
    assert {entry["member_id"] for entry in view["deadlines"]} <= {"m1", ""}
    session_ms = bench.config.consumer_session_timeout_ms
    assert session_ms in [entry["in_ms"] for entry in view["deadlines"]]
    assert view["config_overrides"] == {"consumer.session.timeout.ms": "50000"}
    await bench.broker.close()


async def test_a_group_of_offsets_only_and_no_group() -> None:
    bench = await Bench().start()
    await bench.answer(commit("simple", 1))
    view = shown(bench, "simple")
    assert (view["type"], view["state"], view["members"]) == ("classic", "Empty", [])
    state = bench.shard.shard.state
    assert inspect_group(state, "nobody", bench.clock.now()) is None
    assert list_group_summaries(state) == [
        {"group_id": "simple", "type": "classic", "state": "Empty"}
    ]
    await bench.broker.close()


async def test_a_write_under_way_is_something_that_a_group_waits_for() -> None:
    bench = await Bench().start()
    await bench.answer(consumer_join("g", "m1"))
    bench.store.hold_appends()
    bench.ask(consumer_beat("g", "m1", -1))
    await settle()
    view = inspect(bench.shard, "g", bench.clock.now())
    assert view is not None
    why = "changes of the group are being written to the log"
    assert [entry["why"] for entry in view["blocked"]] == [why]
    bench.store.release_appends()
    await settle()
    view = inspect(bench.shard, "g", bench.clock.now())
    assert view is not None
    assert view["blocked"] == []
    await bench.broker.close()
