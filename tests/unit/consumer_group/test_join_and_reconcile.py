"""docs/spec/consumer-group.md#11 "Joining and reconciliation" (CG-14 to CG-28)."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from tests.unit.consumer_group.harness import (
    BAR,
    FOO,
    GROUP,
    Scripted,
    Shard,
    parts,
    replayed,
    snapshot,
    topic,
)

INTERVAL_MS = 5_000
"""The time between heartbeats, as members are told."""
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def at(epoch: int, *partitions: int) -> dict[int, int]:
    """Partitions with their assignment epoch."""
    return dict.fromkeys(partitions, epoch)


def foo(**settings: Any) -> Shard:
    return Shard(topic("foo", FOO), **settings)


def scripted(**targets: dict[bytes, Any]) -> Scripted:
    return Scripted(target=targets)


def test_cg_14_assignor_raises() -> None:
    shard = foo(assignor=Scripted("mine", fails=ValueError("boom")))
    reply = shard.beat(0, assignor="mine")
    assert (reply.error, reply.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert shard.outcome.records == []
    assert GROUP not in shard.state.groups
    (event,) = shard.events(EventKind.ASSIGNOR_FAILED)
    assert event.cause == "ValueError: boom"
    assert event.details["assignor"] == "mine"
    assert len(shard.state.deadlines) == 0


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ({"stranger": {FOO: (0,)}}, "stranger is not a member"),
        ({"m1": {FOO: (0, 0)}}, "handed out twice"),
        ({"m1": {FOO: (6,)}}, "does not have"),
        ({"m1": {FOO: (-1,)}}, "does not have"),
        ({"m1": {BAR: (0,)}}, "not subscribed"),
        ({"m1": {FOO: ("0",)}}, "no partition number"),
        ({"m1": 5}, "TypeError"),
        (None, "TypeError"),
    ],
)
def test_misbehaving_assignor_is_refused(target: Any, fault: str) -> None:
    shard = Shard(topic("foo", FOO), topic("bar", BAR), assignor=Scripted(target=target))
    reply = shard.beat(0)
    assert (reply.error, reply.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    (event,) = shard.events(EventKind.ASSIGNOR_FAILED)
    assert fault in event.cause


def test_partition_given_to_two_members_is_refused() -> None:
    shard = foo(assignor=scripted(m1={FOO: range(6)}))
    shard.beat(0)
    shard.assignor.target = {"m1": {FOO: range(6)}, "m2": {FOO: (5,)}}
    assert shard.beat(0, "m2").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "R6" not in shard.shape()


def test_preferred_assignor_no_longer_configured() -> None:
    shard = foo()
    shard.put_member("m1", server_assignor="gone")
    shard.put_member("m2", server_assignor="gone")
    shard.settle()
    assert shard.beat(10, "m1", names=["foo", "x"]).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_cg_15_first_member_joins() -> None:
    shard = foo()
    reply = shard.beat(0)
    assert shard.shape() == ["R5", "R3", "R7", "R6", "R8"]
    assert (reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == ("m1", 2, 5000)
    assert parts(reply.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}
    member = shard.member()
    assert (member.state, member.member_epoch, member.previous_member_epoch) == (STABLE, 2, 0)
    assert member.assigned == {FOO: at(2, *range(6))}
    group = shard.group
    assert (group.group_epoch, group.assignment_epoch) == (2, 2)
    assert group.assignment_timestamp_ms == shard.now.wall_ms
    assert group.metadata_hash != 0
    assert group.state_name() == "Stable"
    assert shard.outcome.gate == GROUP
    assert shard.due("session") == 45_000
    assert snapshot(replayed(shard)) == snapshot(shard.state)
    assert [event.kind for event in shard.outcome.events] == [
        EventKind.GROUP_CREATED,
        EventKind.MEMBER_JOINED,
        EventKind.GROUP_EPOCH_BUMPED,
        EventKind.TARGET_INSTALLED,
        EventKind.MEMBER_EPOCH_ADVANCED,
        EventKind.PARTITIONS_ASSIGNED,
    ]


def test_handler_alone_changes_no_hard_state() -> None:
    shard = foo()
    shard.beat(0)
    before = snapshot(shard.state)
    outcome = shard.handle(0, "m2")
    assert outcome.records
    assert snapshot(shard.state) == before


def test_cg_16_topic_appears_later() -> None:
    shard = Shard()
    reply = shard.beat(0)
    assert (reply.member_epoch, reply.assignment) == (2, ())
    assert shard.group.metadata_hash == 0
    shard.topics(topic("foo", FOO, 3))
    reply = shard.beat(2)
    assert (reply.member_epoch, parts(reply.assignment)) == (3, {FOO: [0, 1, 2]})
    (bump,) = shard.events(EventKind.GROUP_EPOCH_BUMPED)
    assert "metadata" in bump.cause


def test_cg_17_member_without_topics() -> None:
    shard = foo()
    reply = shard.beat(0, names=[])
    assert (reply.member_epoch, reply.assignment) == (1, ())
    assert shard.shape() == ["R5", "R8"]
    assert shard.group.state_name() == "Stable"


def test_cg_18_member_without_topics_prefers_another_assignor() -> None:
    shard = foo()
    reply = shard.beat(0, names=[], assignor="range")
    assert (reply.member_epoch, shard.group.group_epoch) == (2, 2)


def two_members(**settings: Any) -> Shard:
    """G@10: m1 owns foo 0-2, m2 owns foo 3-5."""
    shard = foo(**settings)
    shard.put_member("m1", assigned={FOO: at(10, 0, 1, 2)})
    shard.put_member("m2", assigned={FOO: at(10, 3, 4, 5)})
    shard.settle(m1={FOO: (0, 1, 2)}, m2={FOO: (3, 4, 5)})
    return shard


def test_cg_19_third_member_joins_a_full_house() -> None:
    shard = two_members(assignor=scripted(m1={FOO: (0, 1)}, m2={FOO: (3, 4, 5)}, m3={FOO: (2,)}))
    reply = shard.beat(0, "m3")
    assert (reply.member_epoch, reply.assignment) == (11, ())
    assert shard.shape() == ["R5", "R3", "R7", "R7", "R6", "R8"]
    targeted = [one.key.member_id for one in shard.outcome.records[2:4]]
    assert targeted == ["m1", "m3"]
    assert shard.member("m3").state is UNRELEASED
    assert shard.group.state_name() == "Reconciling"


def three_members() -> Shard:
    """The members after CG-19 and CG-20: m1 is to revoke foo-2, which m3 waits for."""
    shard = two_members(assignor=scripted(m1={FOO: (0, 1)}, m2={FOO: (3, 4, 5)}, m3={FOO: (2,)}))
    shard.beat(0, "m3")
    reply = shard.beat(10, owned={FOO: [0, 1, 2]})
    assert (reply.member_epoch, parts(reply.assignment)) == (10, {FOO: [0, 1]})
    return shard


def test_cg_20_revocation_is_asked_for() -> None:
    shard = three_members()
    assert shard.shape() == ["R8"]
    member = shard.member()
    assert (member.state, member.previous_member_epoch) == (UNREVOKED, 10)
    assert member.assigned == {FOO: at(10, 0, 1)}
    assert member.pending_revocation == {FOO: at(10, 2)}
    assert shard.due("rebalance") == 60_000
    (event,) = shard.events(EventKind.PARTITIONS_REVOKING)
    assert event.details["partitions"] == {"foo": [2]}


def test_cg_21_waiting_for_the_acknowledgement() -> None:
    shard = three_members()
    reply = shard.beat(10)
    assert (reply.member_epoch, reply.assignment, shard.shape()) == (10, None, [])


def test_cg_22_acknowledged() -> None:
    shard = three_members()
    reply = shard.beat(10, owned={FOO: [0, 1]})
    assert (reply.member_epoch, reply.assignment) == (11, None)
    member = shard.member()
    assert (member.state, member.assigned) == (STABLE, {FOO: at(10, 0, 1)})
    assert shard.due("rebalance") is None


def test_cg_23_released_partition_reaches_its_new_owner() -> None:
    shard = three_members()
    shard.beat(10, owned={FOO: [0, 1]})
    reply = shard.beat(11, "m3")
    assert parts(reply.assignment) == {FOO: [2]}
    assert shard.member("m3").assigned == {FOO: at(11, 2)}
    assert shard.member("m3").state is STABLE
    shard.beat(10, "m2")
    assert shard.group.state_name() == "Stable"
    assert snapshot(replayed(shard)) == snapshot(shard.state)


def test_cg_24_blocked_member_writes_one_more_record() -> None:
    shard = three_members()
    reply = shard.beat(11, "m3")
    assert (shard.shape(), reply.assignment) == (["R8"], None)
    assert shard.member("m3").previous_member_epoch == 11
    shard.beat(11, "m3")
    assert shard.shape() == []


def test_cg_25_already_revoked_by_the_client() -> None:
    shard = foo(assignor=scripted(m1={FOO: (0, 1)}))
    shard.put_member("m1", assigned={FOO: at(10, 0, 1, 2)})
    shard.settle(11, m1={FOO: (0, 1)})
    reply = shard.beat(10, owned={FOO: [0, 1]})
    assert (reply.member_epoch, parts(reply.assignment)) == (11, {FOO: [0, 1]})
    assert shard.member().state is STABLE
    assert shard.due("rebalance") is None


def test_cg_26_pending_partition_comes_back() -> None:
    shard = foo()
    shard.put_member(
        "m1", state=UNREVOKED, assigned={FOO: at(10, 0)}, pending_revocation={FOO: at(10, 1)}
    )
    shard.settle(12, m1={FOO: (0, 1)})
    reply = shard.beat(10, owned={FOO: [0]})
    assert (reply.member_epoch, parts(reply.assignment)) == (12, {FOO: [0, 1]})
    assert shard.member().assigned == {FOO: {0: 10, 1: 12}}
    assert shard.member().state is STABLE


def test_cg_27_unreleased_member_loses_a_partition() -> None:
    shard = foo()
    shard.put_member("m1", member_epoch=11, state=UNRELEASED, assigned={FOO: at(11, 0, 1)})
    shard.settle(12, m1={FOO: (0,)})
    reply = shard.beat(11)
    assert (reply.member_epoch, shard.member().state) == (11, UNREVOKED)
    assert shard.member().pending_revocation == {FOO: at(11, 1)}


def test_cg_28_unknown_state() -> None:
    shard = foo()
    shard.put_member("m1", state=99, assigned={FOO: at(10, 0)})
    shard.settle(12, m1={FOO: (0, 1)})
    assert shard.member().state is MemberState.UNKNOWN
    assert shard.refused(10) is ErrorCode.FENCED_MEMBER_EPOCH
    assert shard.refused(10, owned={FOO: [0]}) is ErrorCode.FENCED_MEMBER_EPOCH
    reply = shard.beat(0)
    assert (reply.member_epoch, parts(reply.assignment)) == (12, {FOO: [0, 1]})


def test_an_assignment_that_nobody_acknowledges_is_told_again() -> None:
    """librdkafka gives a slow heartbeat up and then asks again without telling what it owns."""
    shard = three_members()  # m1 was told to give partition 2 up: that reply is lost
    told = []
    for _ in range(6):
        shard.advance(INTERVAL_MS)
        told.append(shard.beat(10).assignment)
    assert [assignment and parts(assignment) for assignment in told] == [None, {FOO: [0, 1]}] * 3
    assert shard.beat(10, owned={FOO: [0, 1]}).member_epoch == 11
    assert {shard.beat(11).assignment for _ in range(6)} == {None}
    assert "m1" not in shard.group.unacknowledged


def test_a_partition_that_was_given_later_is_told_again_too() -> None:
    shard = three_members()
    shard.beat(10, owned={FOO: [0, 1]})
    assert shard.beat(11, "m3").assignment is not None  # lost
    shard.advance(2 * INTERVAL_MS - 1)
    assert shard.beat(11, "m3").assignment is None
    shard.advance(1)
    assert parts(shard.beat(11, "m3").assignment) == {FOO: [2]}
    shard.beat(11, "m3", owned={FOO: [2]})
    shard.advance(2 * INTERVAL_MS)
    assert shard.beat(11, "m3").assignment is None


def test_frequent_heartbeats_are_not_told_the_same_again_and_again() -> None:
    """A client that sends one every 100 ms while it carries out a revocation."""
    shard = three_members()
    told = []
    for _ in range(100):
        shard.advance(100)
        told.append(shard.beat(10).assignment)
    assert [number for number, assignment in enumerate(told, 1) if assignment] == [100]


def test_the_interval_of_the_group_says_when_an_assignment_is_told_again() -> None:
    shard = three_members()
    shard.state.group_configs[GROUP] = {"consumer.heartbeat.interval.ms": "6000"}
    shard.advance(11_999)
    assert shard.beat(10).assignment is None
    shard.advance(1)
    assert parts(shard.beat(10).assignment) == {FOO: [0, 1]}


def test_a_stored_reply_does_not_keep_an_assignment_from_being_told_again() -> None:
    """A settled member says everything, without what it owns: the reply, which tells it, is lost.
    Its plain heartbeats after that are looked at again until it reports the assignment."""
    shard = two_members()
    owned = {FOO: [0, 1, 2]}
    shard.beat(10, owned=owned)
    lease = shard.handle(10).steady
    assert lease is not None
    assert lease.renew(shard.now.monotonic_ms)
    reply = shard.beat(10, names=["foo"], owned={}, timeout=60_000)
    assert reply.assignment is not None
    assert not lease.renew(shard.now.monotonic_ms)
    assert shard.handle(10).steady is None
    shard.advance(2 * INTERVAL_MS)
    assert parts(shard.beat(10).assignment) == owned
    shard.beat(10, owned=owned)
    assert shard.handle(10).steady is not None
