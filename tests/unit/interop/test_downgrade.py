"""Consumer -> classic: what the scenarios of `migration` do not show, and writes that fail on the
way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.schema import (
    ClassicMemberMetadata,
    ClassicProtocol,
    GroupMetadataValue,
)
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import (
    FOO,
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    Failed,
    assignment,
    classic_member,
    hard_state,
    member,
)


def mixed(**settings: Any) -> Bench:
    """G@10: a and b on the classic protocol, m on the other."""
    bench = Bench(**settings)
    bench.given_consumer(classic_member("a", 0, 1), classic_member("b", 2, 3), member("m", 4, 5))
    return bench


def with_static(**changes: Any) -> Bench:
    """G@10: a on the classic protocol, m static and on the other."""
    bench = Bench()
    bench.given_consumer(
        classic_member("a", 0, 1, 2, **changes), member("m", 3, 4, 5, instance_id="i1")
    )
    return bench


def classic_record(bench: Bench) -> GroupMetadataValue:
    value = bench.outcome.records[-1].value
    assert isinstance(value, GroupMetadataValue)
    return value


@pytest.mark.parametrize("how", ["leave-group", "session"])
def test_the_last_consumer_member_goes_in_another_way(how: str) -> None:
    bench = mixed()
    if how == "leave-group":
        assert bench.leave(("m", None)) == [ErrorCode.NONE]
    else:
        for _ in range(6):
            bench.classic_beat("a", 10)
            bench.classic_beat("b", 10)
            bench.advance(7500)
    gone = ["T8"] * 3 + ["T7"] * 3 + ["T6"] + ["T5"] * 3 + ["T4", "T3", "R2"]
    assert bench.shape() == gone
    # What is to come of the rebalance is not in the record; without a leader it starts again.
    assert (classic_record(bench).leader, bench.classic.leader_id) == (None, "a")
    assert bench.due("classic-join") == REBALANCE_MS
    assert bench.due("classic-session", "a") == SESSION_MS
    for one in "abm":
        for kind in ("session", "join", "sync", "rebalance"):
            assert bench.due(f"consumer-{kind}", one) is None
    kinds = bench.event_kinds()
    left = EventKind.MEMBER_FENCED if how == "session" else EventKind.MEMBER_LEFT
    assert kinds == [left, EventKind.GROUP_CONVERTED, EventKind.REBALANCE_STARTED]


def test_load_before_the_rebalance_is_over_starts_it_again() -> None:
    bench = mixed()
    bench.beat("m", -1)
    bench.reload()
    assert bench.classic.state is State.PREPARING_REBALANCE
    assert bench.classic_beat("b", 10) is ErrorCode.REBALANCE_IN_PROGRESS
    tokens = [bench.join_token("a"), bench.join_token("b")]
    assert [bench.replies[token].generation_id for token in tokens] == [11, 11]


def test_assignment_is_the_target_and_protocols_survive() -> None:
    bench = Bench()
    bench.given_consumer(
        classic_member("a", 0, 1, classic=("sticky", "range")),
        classic_member("b", 2, 3, classic=("range", "sticky")),
        member("m", 4, 5),
        targets={"a": {FOO: (0,)}},
    )
    bench.beat("m", -1)
    assert bench.classic.members["a"].assignment == assignment({"foo": [0]})
    # A tie of votes goes to the smallest name; the record holds only that protocol.
    assert bench.classic.protocol_name == "range"
    assert [one.name for one in bench.classic.members["a"].protocols] == ["sticky", "range"]


@pytest.mark.parametrize("settings", [{"policy": "disabled"}, {"size": 1}])
def test_policy_or_size_keeps_the_consumer_group(settings: dict[str, Any]) -> None:
    bench = mixed(
        consumer_migration_policy=settings.get("policy", "bidirectional"),
        group_max_size=settings.get("size", 100),
    )
    bench.beat("m", -1)
    assert bench.shape() == ["T8", "T7", "T5", "R3"]
    assert (bench.consumer.state_name(), bench.consumer.group_epoch) == ("Assigning", 11)
    # Nobody but a classic member can get the new target computed.
    assert bench.classic_beat("a", 10) is ErrorCode.REBALANCE_IN_PROGRESS
    if settings.get("policy") != "disabled":
        assert bench.join("a", owned={"foo": [0, 1]}).generation_id == 11


def test_target_that_is_delayed_is_asked_for_once_it_is_due() -> None:
    bench = mixed(consumer_migration_policy="upgrade", consumer_assignment_interval_ms=5000)
    bench.consumer.assignment_timestamp_ms = bench.now.wall_ms
    bench.beat("m", -1)
    assert bench.classic_beat("a", 10) is ErrorCode.NONE
    bench.advance(5000)
    assert bench.classic_beat("a", 10) is ErrorCode.REBALANCE_IN_PROGRESS
    bench.join("a", owned={"foo": [0, 1]})
    assert bench.consumer.assignment_epoch == 11


def test_load_of_a_group_that_only_classic_members_can_move_on() -> None:
    bench = mixed(consumer_migration_policy="upgrade")
    bench.beat("m", -1)
    bench.reload()
    assert bench.classic_beat("a", 10) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_consumer_member_stays_or_nobody_stays() -> None:
    bench = Bench()
    bench.given_consumer(classic_member("a", 0), member("m", 1), member("n", 2))
    bench.beat("m", -1)
    assert bench.consumer.group_epoch == 11
    assert bench.leave(("a", None), ("n", None)) == [ErrorCode.NONE] * 2
    assert bench.consumer.state_name() == "Empty"


def test_a_classic_member_that_leaves_classic_members_downgrades_too() -> None:
    bench = Bench()
    bench.given_consumer(classic_member("a", 0), classic_member("b", 1))
    bench.leave(("a", None))
    assert set(bench.classic.members) == {"b"}


def test_members_of_a_foreign_log_that_make_no_classic_group() -> None:
    for other in (classic_member("b", 2, classic=("sticky",)), unreadable()):
        bench = Bench()
        bench.given_consumer(classic_member("a", 0), other, member("m", 4, 5))
        bench.beat("m", -1)
        assert bench.shape() == ["T8", "T7", "T5", "R3"]


def unreadable() -> ConsumerGroupMember:
    broken = ClassicMemberMetadata(SESSION_MS, (ClassicProtocol("range", b""),))
    return replace(member("b", 2), classic=broken)


@pytest.mark.parametrize(
    "changes", [{"member_epoch": 9}, {"state": MemberState.UNRELEASED_PARTITIONS}]
)
def test_members_that_lack_their_target_rebalance(changes: dict[str, Any]) -> None:
    """Stable would leave partitions with an owner that must give them up, or with none."""
    bench = with_static(**changes)
    reply = bench.join(instance="i1")
    assert reply.generation_id == 0
    assert bench.classic.state is State.PREPARING_REBALANCE


def test_static_member_that_changes_over_under_its_own_id() -> None:
    bench = with_static()
    reply = bench.join("m", instance="i1", owned={"foo": [3, 4, 5]})
    assert (reply.member_id, reply.generation_id) == ("m", 10)
    assert bench.shape()[:3] == ["R5", "T8", "T8"]
    assert bench.classic.state is State.STABLE
    assert hard_state(bench.replayed()) == hard_state(bench.state)


def test_regex_of_the_replaced_member_is_dropped_and_bumps() -> None:
    bench = Bench()
    bench.given_consumer(
        classic_member("a", 0),
        member("m", 1, topics=(), instance_id="i1", subscribed_topic_regex="fo.*"),
    )
    bench.join(instance="i1")
    assert bench.shape()[6:9] == ["R5", "T16", "R3"]
    assert bench.classic.state is State.PREPARING_REBALANCE


def test_not_the_only_consumer_member_or_not_permitted() -> None:
    bench = with_static()
    bench.beat("n", 0)
    assert bench.join(instance="i1").error is ErrorCode.NONE
    assert set(bench.consumer.members) >= {"a", "n"}
    kept = Bench(consumer_migration_policy="upgrade")
    kept.given_consumer(member("m", 0, instance_id="i1"))
    assert kept.join(instance="i1").generation_id == 10
    assert kept.consumer.state_name() == "Stable"


# Writes that fail


def test_failed_append_of_a_downgrade() -> None:
    bench = mixed()
    bench.hold = True
    leaving = bench.beat_token("m", -1)
    parked = bench.join_token("a")
    assert bench.unanswered() == {leaving, parked}
    bench.fail()
    assert isinstance(bench.replies[leaving], Failed)
    assert bench.replies[parked].error is ErrorCode.NOT_COORDINATOR
    assert bench.unanswered() == set()
    assert set(bench.consumer.members) == {"a", "b", "m"}


def test_requests_while_a_downgrade_is_being_written() -> None:
    bench = mixed()
    bench.hold = True
    bench.beat_token("m", -1)
    tokens = [bench.join_token("a"), bench.join_token("b")]
    # The join phase rests on nothing that is still to be written, as for any classic group.
    assert [bench.replies[token].generation_id for token in tokens] == [11, 11]
    bench.commit()
    assert bench.classic.state is State.COMPLETING_REBALANCE


def test_downgrade_too_large_to_be_written_leaves_the_consumer_group() -> None:
    bench = mixed()
    before = hard_state(bench.state)
    bench.refuse = True
    leaving = bench.beat_token("m", -1)
    assert isinstance(bench.replies[leaving], Failed)
    assert hard_state(bench.state) == before
    assert bench.due("classic-session", "a") is None
    assert bench.due("classic-join") is None
    # Everybody has a session again, so that a fence is tried again.
    assert [bench.due("consumer-session", one) for one in "abm"] == [45_000] * 3
    bench.beat("m", -1)
    assert isinstance(bench.state.groups[GROUP], ClassicGroup)


def test_failure_that_comes_after_the_group_was_upgraded_again() -> None:
    bench = mixed()
    bench.hold = True
    tokens = [bench.beat_token("m", -1), bench.join_token("a"), bench.beat_token("n", 0)]
    assert bench.replies[tokens[1]].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert set(bench.consumer.members) == {"a", "b", "n"}
    bench.fail()
    assert bench.unanswered() == set()
    assert set(bench.consumer.members) == {"a", "b", "m"}


def test_there_and_back_in_one_batch() -> None:
    bench = mixed()
    bench.hold = True
    bench.beat_token("m", -1)
    bench.beat_token("n", 0)
    bench.commit()
    assert bench.consumer.group_epoch == 11
    held = [p for one in bench.consumer.members.values() for p in one.assigned.get(FOO, ())]
    assert sorted(held) == sorted(set(held))
    assert hard_state(bench.replayed()) == hard_state(bench.state)


def test_there_and_back_keeps_what_members_still_hold_not_what_they_were_to_get() -> None:
    bench = Bench()
    bench.given_consumer(
        classic_member("a", 0, 1, 2), classic_member("b"), member("m"), targets={"a": {FOO: (0,)}}
    )
    bench.beat("m", -1)
    assert bench.classic.members["a"].assignment == assignment({"foo": [0]})
    bench.beat("n", 0)
    held = bench.consumer.members["a"]
    assert (list(held.assigned[FOO]), held.member_epoch) == ([0, 1, 2], 10)
    assert not {0, 1, 2} & set(bench.consumer.members["n"].assigned.get(FOO, ()))


def test_there_and_back_after_a_static_replacement_that_rebalanced() -> None:
    bench = Bench()
    bench.given_consumer(
        classic_member("a", 0, 1, 2, member_epoch=9),
        member("m", 3, instance_id="i1"),
        targets={"a": {FOO: (0,)}, "m": {FOO: (1, 2, 3)}},
    )
    joined = bench.join(instance="i1")
    assert bench.classic.members[joined.member_id].assignment == assignment({"foo": [1, 2, 3]})
    assert bench.beat("n", 0).error is ErrorCode.NONE
    members = bench.consumer.members
    assert sorted(members["a"].assigned[FOO]) == [0, 1, 2]
    assert sorted(members[joined.member_id].assigned[FOO]) == [3]
