"""A consumer group that hosts classic members: what the scenarios of `migration` do not show."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import (
    FOO,
    REBALANCE_MS,
    SESSION_MS,
    assignment,
    classic_member,
    foo,
    hard_state,
    member,
    read,
    subscription,
)

BOTH = (("range", subscription("foo")), ("sticky", subscription("foo")))


def mixed(**settings: Any) -> Bench:
    """G@10: c on the classic protocol with foo 0-2, m with foo 3-5."""
    bench = Bench(**settings)
    bench.given_consumer(classic_member("c", 0, 1, 2), member("m", 3, 4, 5))
    return bench


# JoinGroup


def test_id_of_the_client_and_old_versions_join_at_once() -> None:
    bench = mixed()
    assert bench.join("mine").generation_id == 11
    reply = bench.join(version=3)
    assert (reply.error, reply.generation_id) == (ErrorCode.NONE, 12)
    assert reply.member_id in bench.consumer.members


def test_static_member_is_replaced_without_asking() -> None:
    bench = mixed()
    first = bench.join(instance="i1")
    assert (first.error, first.generation_id) == (ErrorCode.NONE, 11)
    second = bench.join(instance="i1")
    assert bench.shape() == ["T8", "T7", "T5", "R5", "R7", "R8", "R8"]
    assert second.generation_id == 11
    assert second.member_id != first.member_id
    assert bench.consumer.static_members == {"i1": second.member_id}
    assert bench.consumer.group_epoch == 11
    assert bench.join(first.member_id, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.join("x", instance="i2").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.join(second.member_id, instance="i1").generation_id == 11


def test_disabled_policy_refuses_old_members_too() -> None:
    bench = mixed(consumer_migration_policy="disabled")
    before = hard_state(bench.state)
    for one in ("", "c", "new"):
        assert bench.join(one).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert hard_state(bench.state) == before
    # The other requests still work, so that the member can end what it has begun.
    assert bench.classic_beat("c", 10) is ErrorCode.NONE


@pytest.mark.parametrize("policy", ["upgrade", "downgrade"])
def test_other_policies_let_classic_members_in(policy: str) -> None:
    assert mixed(consumer_migration_policy=policy).join("new").error is ErrorCode.NONE


def test_common_protocol_is_one_that_all_classic_members_know() -> None:
    bench = Bench()
    bench.given_consumer(member("m", 0, 1, 2, 3, 4, 5))
    # Nobody is on the classic protocol yet: any name will do.
    assert bench.join("a", protocols=BOTH).error is ErrorCode.NONE
    assert bench.join("b", protocols=BOTH[1:]).error is ErrorCode.NONE
    assert bench.join("x", protocols=BOTH[:1]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # The sender's old list counts.
    assert bench.join("b", protocols=BOTH[:1]).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join("a", protocols=BOTH[1:]).protocol_name == "sticky"


def test_full_group() -> None:
    bench = mixed(consumer_max_size=2)
    reply = bench.join("new")
    assert (reply.error, reply.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert bench.join("c").error is ErrorCode.NONE


def test_assignor_that_fails_is_an_answer_and_an_event() -> None:
    bench = mixed()
    bench.state.assignors = {}
    reply = bench.join("new")
    assert reply.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.event_kinds() == [EventKind.ASSIGNOR_FAILED]
    assert "new" not in bench.consumer.members


def test_new_subscription_bumps_and_a_changed_one_is_pruned_at_once() -> None:
    bench = mixed(consumer_assignment_interval_ms=5000)
    bench.advance(100)
    bench.join("c", topics=("foo", "bar"), owned={"foo": [0, 1, 2]})
    assert bench.consumer.group_epoch == 11
    # Rack, timeouts or owned partitions alone change the member, not the group.
    bench.join("c", topics=("foo", "bar"), owned={"foo": [0, 1]}, session=7000)
    assert (bench.consumer.group_epoch, bench.due("consumer-session", "c")) == (11, 7000)
    assert bench.shape()[0] == "R5"


def test_consumer_member_changes_over_to_the_classic_protocol() -> None:
    bench = Bench()
    bench.given_consumer(
        member("a", 0, 1, 2, subscribed_topic_regex="fo.*", server_assignor="range"),
        member("m", 3, 4, 5),
    )
    reply = bench.join("a", owned={"foo": [0, 1, 2]})
    assert "T16" in bench.shape()
    assert (reply.generation_id, bench.consumer.group_epoch) == (11, 11)
    one = bench.consumer.members["a"]
    assert (one.subscribed_topic_regex, one.server_assignor) == ("", "range")
    assert one.assigned == foo(0, 1, 2)
    assert bench.sync("a", 11).assignment == assignment({"foo": [0, 1, 2]})


# SyncGroup and Heartbeat


def test_who_is_sent_back_to_join_is_told_again_but_gets_no_more_time() -> None:
    bench = mixed()
    bench.beat("n", 0)
    assert bench.sync("c", 10).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.due("consumer-join", "c") == REBALANCE_MS
    bench.advance(1000)
    assert bench.classic_beat("c", 10) is ErrorCode.REBALANCE_IN_PROGRESS
    # Notifier again, but no more time.
    assert bench.due("consumer-join", "c") == REBALANCE_MS - 1000
    assert bench.due("consumer-session", "c") == SESSION_MS
    bench.join("c")
    assert bench.due("consumer-join", "c") is None


def test_instance_ids_of_heartbeats_and_syncs() -> None:
    bench = mixed()
    bench.join(instance="i1")
    for instance, code in (
        ("i2", ErrorCode.UNKNOWN_MEMBER_ID),
        ("i1", ErrorCode.FENCED_INSTANCE_ID),
    ):
        assert bench.classic_beat("c", 10, instance) is code
        assert bench.sync("c", 10, instance=instance).error is code


def test_protocol_of_the_sync_is_the_members_first() -> None:
    bench = Bench()
    bench.given_consumer(classic_member("c", 0, classic=("range", "sticky")))
    for options in ({"name": "sticky"}, {"protocol_type": "connect"}):
        assert bench.sync("c", 10, **options).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    reply = bench.sync("c", 10, name="range", protocol_type="consumer")
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert read(reply.assignment) == {"foo": [0]}
    reply = bench.sync("c", 10)
    assert (reply.protocol_type, reply.protocol_name) == (None, None)


def test_empty_consumer_group_knows_nobody() -> None:
    bench = mixed(consumer_migration_policy="upgrade")
    assert bench.leave(("c", None), ("m", None)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert bench.sync("c", 10).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.classic_beat("c", 10) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.leave(("c", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_assignment_has_the_version_of_the_subscription_and_only_topics_that_exist() -> None:
    bench = Bench()
    gone = b"\x09" * 16
    given = classic_member("c", assigned={FOO: {0: 10}, gone: {0: 10}})
    bench.given_consumer(given)
    assert bench.sync("c", 10).assignment == assignment({"foo": [0]})
    assert bench.join("c", protocols=(("range", subscription("foo", version=0)),)).error is (
        ErrorCode.NONE
    )
    assert bench.sync("c", 10).assignment[:2] == b"\x00\x00"


def test_member_that_must_revoke_syncs_and_is_told_to_rejoin() -> None:
    bench = mixed()
    bench.beat("n", 0)
    reply = bench.join("c", owned={"foo": [0, 1, 2]})
    assert reply.generation_id == 10
    assert bench.consumer.members["c"].state is MemberState.UNREVOKED_PARTITIONS
    # Its join timer is the limit, not the consumer protocol's rebalance timer.
    assert bench.due("consumer-rebalance", "c") is None
    assert read(bench.sync("c", 10).assignment) == {"foo": [0, 1]}
    assert bench.classic_beat("c", 10) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.due("consumer-join", "c") == REBALANCE_MS


def test_consumer_heartbeat_makes_a_classic_member_a_consumer_member() -> None:
    bench = mixed()
    bench.join("c", owned={"foo": [0, 1, 2]})
    reply = bench.beat("c", 0)
    assert reply.assignment is not None
    assert [one.partitions for one in reply.assignment] == [(0, 1, 2)]
    assert (reply.member_epoch, bench.consumer.members["c"].classic) == (10, None)
    # The timer of its last JoinGroup is no business of a consumer member.
    bench.advance(REBALANCE_MS)
    assert "c" in bench.consumer.members


# LeaveGroup


def test_leaving_by_instance_id() -> None:
    bench = Bench()
    bench.given_consumer(
        classic_member("a", 0), classic_member("b", 1, instance_id="i1"), member("m", 2)
    )
    codes = bench.leave(("a", None), ("", "i1"), ("x", None), ("b", "i2"), ("a", "i1"))
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert bench.shape() == ["T8", "T7", "T5", "T8", "T7", "T5", "R3"]
    assert bench.consumer.group_epoch == 11
    assert bench.due("consumer-session", "a") is None


def test_leaving_without_anybody_left() -> None:
    bench = mixed(consumer_migration_policy="upgrade")
    assert bench.leave(("x", None), ("", None)) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert bench.outcome.records == []
    assert bench.leave(("m", None), ("c", None)) == [ErrorCode.NONE] * 2
    assert bench.shape() == [*["T8", "T7", "T5"] * 2, "R3", "R6"]
    assert bench.consumer.state_name() == "Empty"
