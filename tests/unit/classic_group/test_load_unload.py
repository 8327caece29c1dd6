"""Loads and unloads, and replay: what the scenarios of `classic_load` do not show."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.classic_group.appended import appended
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Record,
)
from tests.support.replaying import apply
from tests.unit.classic_group.harness import WALL_MS, Bench

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


def value(*members: GroupMetadataMember, **changes) -> GroupMetadataValue:
    fields = {"protocol_type": "consumer", "generation": 5, "protocol": "range", "leader": "m1"}
    return GroupMetadataValue(**(fields | changes), members=members)


def member(member_id: str, instance: str | None = None, rebalance: int = -1):
    return GroupMetadataMember(
        member_id, instance, "c", "/h", rebalance, 10_000, b"sub", member_id.encode()
    )


def load(*values: GroupMetadataValue | None, **config) -> Bench:
    return Bench([Record(GroupMetadataKey("g"), entry) for entry in values], **config)


def test_whoever_comes_after_an_unload_finds_a_dead_group():
    bench = Bench()
    (a,) = bench.completing(1)
    bench.unload()
    assert len(bench.state.deadlines) == 0
    assert bench.state_name == "Dead"
    assert bench.beat(a) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    late = bench.join(a)
    assert bench.replies[late] == JoinGroupReply(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=a)
    assert bench.replies[bench.sync(a, 1)].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    left = bench.replies[bench.leave(a)]
    assert (left.error, left.members) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, ())


@pytest.mark.parametrize("code", [None, NOT_COORDINATOR], ids=["commit", "failure"])
def test_an_append_that_ends_after_the_unload_is_ignored(code):
    bench = Bench()
    (a,) = bench.completing(1)
    bench.hold = True
    token = bench.sync(a, 1, {a: b"A"})
    bench.unload()
    bench._end_append(code)
    assert bench.replies[token].error is NOT_COORDINATOR


def test_an_append_of_a_replaced_group_is_ignored():
    bench = Bench()
    bench.hold = True
    bench.pending_id()
    outcome = bench.appending.pop()
    apply(bench.state, Record(GroupMetadataKey("g"), value()))
    done = appended(bench.state, outcome.completion, None, bench.now)
    assert (done.urgent, done.records) == ([], [])
    assert bench.group.generation == 5


def test_load_the_last_record_wins():
    bench = load(value(member("m1")), value(member("m2", "i2"), generation=7, leader="m2"))
    assert (bench.group.generation, list(bench.group.members)) == (7, ["m2"])
    assert bench.group.static_members == {"i2": "m2"}
    assert bench.group.members["m2"].rebalance_timeout_ms == 10_000
    assert bench.session_due_in("m1") is None


def test_load_a_group_without_members_is_empty():
    bench = load(value(protocol=None, leader=None, current_state_timestamp_ms=WALL_MS))
    assert (bench.state_name, bench.group.leader_id) == ("Empty", None)
    assert bench.group.state_timestamp_ms == WALL_MS


def test_a_tombstone_removes_the_group_and_its_timers():
    bench = Bench()
    p = bench.pending_id()
    tombstones = bench.group.tombstones()
    assert tombstones == [Record(GroupMetadataKey("g"))]
    apply(bench.state, tombstones[0])
    assert bench.state.groups == {}
    assert len(bench.state.deadlines) == 0
    assert bench.replies[bench.join(p)].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_tombstone_of_an_unknown_group_is_ignored():
    assert load(None).state.groups == {}


def test_replay_of_the_log_gives_the_live_group():
    bench = Bench()
    ids = bench.static_stable(3)
    bench.join(instance="i2")
    live, loaded = bench.group, bench.reload().group
    for name in ("generation", "leader_id", "protocol_name", "protocol_type", "static_members"):
        assert getattr(live, name) == getattr(loaded, name)
    assert live.state is loaded.state
    assert {m.member_id: m.assignment for m in live.sorted_members()} == {
        m.member_id: m.assignment for m in loaded.sorted_members()
    }
    assert len(loaded.members) == len(ids)
