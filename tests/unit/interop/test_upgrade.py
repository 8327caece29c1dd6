"""Classic -> consumer: what the scenarios of `migration` do not show, and what the conversion must
never lose."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, SyncGroupReply
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import (
    FOO,
    GROUP,
    SESSION_MS,
    Failed,
    assignment,
    hard_state,
)

HALVES = {"a": assignment({"foo": [0, 1, 2]}), "b": assignment({"foo": [3, 4, 5]})}


def test_classic_members_hear_of_it_by_heartbeat_and_hand_over() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES)
    assert bench.beat("m", 0).member_epoch == 6
    assert bench.classic_beat("a", 5) is ErrorCode.REBALANCE_IN_PROGRESS
    # Cooperative: what is to go is not in the assignment, the second Join gives it up.
    first = bench.join("a", owned={"foo": [0, 1, 2]})
    assert (first.error, first.generation_id) == (ErrorCode.NONE, 5)
    synced = bench.sync("a", 5)
    assert synced.assignment == assignment({"foo": [0, 1]})
    assert bench.beat("m", 6, owned={}).assignment is None
    second = bench.join("a", owned={"foo": [0, 1]})
    assert second.generation_id == 6
    assert bench.classic_beat("a", 6) is ErrorCode.NONE
    told = bench.beat("m", 6, owned={}).assignment
    assert told is not None
    assert [one.partitions for one in told] == [(2,)]


@pytest.mark.parametrize("phase", ["initial", "rejoining"])
def test_waiting_joins_are_told_to_rejoin(phase: str) -> None:
    bench = Bench(group_initial_rebalance_delay_ms=3000)
    if phase == "rejoining":
        bench.given_classic(5, HALVES)
    new = bench.join().member_id
    parked = {new: bench.join_token(new)}
    if phase == "rejoining":
        parked["a"] = bench.join_token("a")
    assert bench.classic.state is State.PREPARING_REBALANCE
    bench.beat("m", 0)
    for member, token in parked.items():
        again = JoinGroupReply(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member)
        assert bench.replies[token] == again
    assert bench.unanswered() == set()
    assert bench.due("classic-join") is None
    assert set(bench.consumer.members) == {"m", *parked, *(HALVES if phase == "rejoining" else ())}
    # The new member had nothing, and gets its share when it comes back.
    reply = bench.join(new)
    assert reply.error is ErrorCode.NONE
    assert hard_state(bench.replayed()) == hard_state(bench.state)


def test_waiting_syncs_too_and_a_late_commit_of_the_leader_changes_nothing() -> None:
    bench = Bench()
    ids = [bench.join(client=name).member_id for name in "ab"]
    joins = [bench.join_token(member) for member in ids]
    bench.advance(0)
    follower, leader = sorted(ids, key=lambda one: one == bench.classic.leader_id)
    assert [bench.replies[token].generation_id for token in joins] == [1, 1]
    bench.hold = True
    tokens = [bench.sync_token(follower, 1), bench.sync_token(leader, 1, assignments=HALVES)]
    assert bench.unanswered() == set(tokens)
    joining = bench.beat_token("m", 0)
    for token in tokens:
        assert bench.replies[token] == SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS)
    bench.commit()
    assert bench.replies[joining].member_epoch == 2
    assert bench.unanswered() == set()
    assert all(bench.due("classic-session", one) is None for one in ids)
    assert hard_state(bench.replayed()) == hard_state(bench.state)


@pytest.mark.parametrize(
    "given",
    [
        {"policy": "disabled"},
        {"assigned": {"a": b"\x00"}},
        {"assigned": {"a": assignment({"foo": [0]}), "b": assignment({"foo": [0]})}},
    ],
    ids=["disabled", "assignment", "twice"],
)
def test_group_that_cannot_be_upgraded(given: dict[str, Any]) -> None:
    bench = Bench(consumer_migration_policy=given.get("policy", "bidirectional"))
    bench.given_classic(5, given.get("assigned", HALVES))
    before, timers = bench.classic, bench.state.deadlines.items()
    assert bench.beat("m", 0).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.beat("m", 5).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.classic is before
    assert bench.state.deadlines.items() == timers
    assert len(bench.log) == 1


def test_refused_upgrade_leaves_parked_joins_parked() -> None:
    bench = Bench(consumer_migration_policy="downgrade")
    bench.given_classic(5, HALVES)
    parked = bench.join_token("a")
    bench.beat("m", 0)
    assert bench.unanswered() == {parked}


def test_bad_heartbeat_on_a_group_that_could_be_upgraded_changes_nothing() -> None:
    bench = Bench(consumer_max_size=2)
    bench.given_classic(5, HALVES)
    parked = bench.join_token("a")
    assert bench.beat("m", 0).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    bad = Bench()
    bad.given_classic(5, HALVES)
    error = bad.beat("m", 0, topics=(), regex="[").error
    assert error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bench.unanswered() == {parked}
    assert isinstance(bench.state.groups[GROUP], ClassicGroup)
    assert isinstance(bad.state.groups[GROUP], ClassicGroup)


def test_an_id_that_was_handed_out_ends_with_the_classic_group() -> None:
    bench = Bench(consumer_migration_policy="disabled")
    pending = bench.join().member_id
    assert set(bench.classic.pending_members) == {pending}
    assert bench.beat("m", 0).member_epoch == 2
    assert bench.due("classic-session", pending) is None


def test_generation_0_and_topics_that_are_gone() -> None:
    bench = Bench()
    bench.given_classic(0, {"a": assignment({"foo": [0], "gone": [0]}), "b": b""})
    assert bench.beat("m", 0).member_epoch == 1
    assert bench.consumer.members["a"].assigned == {FOO: {0: 0}}
    assert bench.consumer.members["b"].assigned == {}


def test_member_of_the_classic_group_changes_over_and_keeps_its_partitions() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES)
    reply = bench.beat("a", 0)
    assert reply.assignment is not None
    assert [one.partitions for one in reply.assignment] == [(0, 1, 2)]
    assert bench.consumer.members["a"].classic is None
    # Whatever was unassigned before must find an owner, so there is a new epoch.
    assert (reply.member_epoch, bench.consumer.group_epoch) == (6, 6)


def test_static_member_of_the_classic_group_comes_back_on_the_consumer_protocol() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES, instances={"a": "i1"})
    reply = bench.beat("m", 0, instance="i1")
    assert reply.assignment is not None
    assert [one.partitions for one in reply.assignment] == [(0, 1, 2)]
    assert set(bench.consumer.members) == {"m", "b"}
    assert hard_state(bench.replayed()) == hard_state(bench.state)


def test_member_that_joined_a_rebalance_gets_partitions_even_if_nobody_else_is_new() -> None:
    bench = Bench()
    bench.given_classic(5, {"a": assignment({"foo": range(6)})}, instances={"a": "i1"})
    new = bench.join().member_id
    bench.join_token(new)
    bench.beat("m", 0, instance="i1")
    assert len(bench.consumer.targets[new][FOO]) == 3


def test_failed_append_of_an_upgrade_leaves_nobody_waiting() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES)
    parked = bench.join_token("a")
    bench.hold = True
    token = bench.beat_token("m", 0)
    assert bench.replies[parked].error is ErrorCode.REBALANCE_IN_PROGRESS
    late = bench.join_token("a", owned={"foo": [0, 1, 2]})
    bench.fail()
    assert isinstance(bench.replies[token], Failed)
    assert isinstance(bench.replies[late], Failed)
    assert bench.unanswered() == set()
    assert bench.classic.generation == 5
    assert bench.due("classic-session", "a") == SESSION_MS


def test_upgrade_too_large_to_be_written_leaves_the_classic_group() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES)
    parked = bench.join_token("a")
    bench.refuse = True
    token = bench.beat_token("m", 0)
    assert isinstance(bench.replies[token], Failed)
    assert bench.replies[parked].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.classic.joins_parked == 0
    assert bench.join_token("a") in bench.unanswered()
