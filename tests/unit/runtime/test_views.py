"""What others see of shards: event timelines and the logs of `__consumer_offsets`."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from groupd.coordinator.core.types import Event, EventKind
from groupd.coordinator.runtime import timeline
from groupd.coordinator.runtime.clock import new_id, new_topic_id
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.timeline import Timeline
from groupd.storage.log import LogUnavailable
from tests.unit.runtime.harness import Bench, commit, settle


def event(group: str, epoch: int = 0) -> Event:
    return Event(
        "consumer", EventKind.GROUP_EPOCH_BUMPED, group, epoch=epoch, cause="test", details={"n": 1}
    )


def test_events_of_a_group_are_kept_in_order_and_shown_as_plain_data() -> None:
    events = Timeline()
    events.add([event("a", 1)], wall_ms=10)
    events.add([event("b", 5)], wall_ms=11)
    events.add([event("a", 2)], wall_ms=12)
    assert events.of("a") == [
        {
            "sequence": sequence,
            "timestamp_ms": wall_ms,
            "group_type": "consumer",
            "event": "group-epoch-bumped",
            "member_id": "",
            "epoch": epoch,
            "cause": "test",
            "details": {"n": 1},
        }
        for sequence, wall_ms, epoch in ((0, 10, 1), (4, 12, 2))
    ]
    assert events.of("nobody") == []


def member(kind: EventKind, member_id: str, cause: str = "", group_type: str = "consumer") -> Event:
    details = {"client_id": f"client-{member_id}"}
    return Event(group_type, kind, "a", member_id, cause=cause, details=details)


def test_the_last_rebalance_names_the_clients_that_came_and_went() -> None:
    events = Timeline()
    assert events.last_rebalance("a") is None
    events.add([member(EventKind.MEMBER_JOINED, "old", "new member")], wall_ms=5)
    fenced = member(EventKind.MEMBER_FENCED, "m1", "no heartbeat")
    cause = "2 of 3 members removed: no heartbeat"
    bumped = Event("consumer", EventKind.GROUP_EPOCH_BUMPED, "a", epoch=3, cause=cause)
    events.add([fenced, member(EventKind.MEMBER_LEFT, "m2"), bumped], wall_ms=10)
    told = (
        "member m1 (client client-m1) was fenced: no heartbeat; member m2 (client client-m2) left"
    )
    assert events.last_rebalance("a") == {"timestamp_ms": 10, "cause": told}
    cause = "2 partitions were added"
    target = Event("consumer", EventKind.TARGET_INSTALLED, "a", epoch=3, details={"members": 1})
    bumped = Event("consumer", EventKind.GROUP_EPOCH_BUMPED, "a", epoch=4, cause=cause)
    events.add([bumped], wall_ms=10)
    both = {"timestamp_ms": 10, "cause": f"{told}; {cause}"}
    assert events.last_rebalance("a") == both, "an epoch before the target belongs to the same one"
    events.add([replace(target, epoch=4)], wall_ms=10)
    events.add([replace(bumped, epoch=5)], wall_ms=11)
    assert events.last_rebalance("a") == {"timestamp_ms": 11, "cause": cause}
    for number in range(timeline.EVENTS_PER_GROUP):
        events.add([member(EventKind.MEMBER_EPOCH_ADVANCED, f"m{number}")], wall_ms=12)
    assert events.last_rebalance("a") == {"timestamp_ms": 11, "cause": cause}, "its start stays"


def test_the_next_generation_of_a_classic_group_is_the_end_of_its_rebalance() -> None:
    events = Timeline()
    started = Event("classic", EventKind.REBALANCE_STARTED, "a", cause="member m1 joined")
    events.add([member(EventKind.MEMBER_JOINED, "m1", "new member", "classic"), started], 10)
    completed = {"members": 1}
    cause = "join phase completed"
    bumped = Event(
        "classic", EventKind.GROUP_EPOCH_BUMPED, "a", epoch=1, cause=cause, details=completed
    )
    events.add([bumped], wall_ms=11)
    told = "member m1 (client client-m1) joined"
    assert events.last_rebalance("a") == {"timestamp_ms": 10, "cause": told}


def test_the_last_events_of_a_group_stay() -> None:
    events = Timeline()
    for epoch in range(timeline.EVENTS_PER_GROUP + 3):
        events.add([event("a", epoch)], wall_ms=0)
    kept = [entry["epoch"] for entry in events.of("a")]
    assert kept == list(range(3, timeline.EVENTS_PER_GROUP + 3))


def test_the_group_that_was_quiet_for_longest_goes() -> None:
    events = Timeline()
    for number in range(timeline.GROUPS_MAX):
        events.add([event(f"g{number}")], wall_ms=0)
    events.add([event("g0")], wall_ms=1)
    events.add([event("one more")], wall_ms=2)
    assert events.of("g1") == []
    assert len(events.of("g0")) == 2
    assert len(events.of("one more")) == 1


async def test_the_offsets_log_shows_what_is_durable_and_tells_of_more() -> None:
    bench = await Bench().start()
    view, moved = bench.broker.served, asyncio.Event()
    assert view.state(0) == (0, 0)
    assert bench.shard.state is CoordinatorState.ACTIVE
    view.add_waiter(0, moved)
    assert view.state(0) == (0, 0)
    bench.store.hold_appends()
    bench.ask(commit("g", 1))
    await settle()
    assert view.state(0) == (0, 0)
    assert not moved.is_set()
    bench.store.release_appends()
    await settle()
    assert view.state(0) == (0, 1)
    assert moved.is_set()
    view.remove_waiter(0, moved)
    view.remove_waiter(0, moved)
    moved.clear()
    await bench.answer(commit("g", 2))
    assert not moved.is_set()
    await bench.broker.close()


async def test_the_offsets_log_is_gone_while_its_shard_does_not_serve() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    view, moved = bench.broker.served, asyncio.Event()
    view.add_waiter(0, moved)
    bench.store.fail_next_append()
    bench.store.fail_next_read(LogUnavailable("away"))
    bench.ask(commit("g", 2))
    await settle()
    assert view.state(0) is None
    assert moved.is_set(), "a long poll must not wait for a shard that has failed"
    moved.clear()
    bench.clock.advance(500)
    await settle()
    assert view.state(0) == (0, 1)
    assert moved.is_set()
    assert view.state(1) is None
    assert view.state(-1) is None
    await bench.broker.close()
    assert view.state(0) is None


def test_ids_are_random_and_topic_ids_never_look_like_an_option() -> None:
    assert len(new_id()) == 36
    assert new_id() != new_id()
    ids = [new_topic_id() for _ in range(2000)]
    assert len(set(ids)) == len(ids)
    assert all(topic_id[0] >> 2 != 62 for topic_id in ids)


def test_all_groups_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "EVENTS_MAX", 250)
    events, most = Timeline(), 0
    for epoch in range(3 * timeline.EVENTS_PER_GROUP):
        for group in ("a", "b", "c"):
            events.add([event(group, epoch)], wall_ms=0)
            assert events.of(group)[-1]["epoch"] == epoch
            most = max(most, sum(len(events.of(name)) for name in ("a", "b", "c")))
    assert most == 250
