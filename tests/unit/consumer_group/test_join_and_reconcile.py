"""Joining and reconciliation: what the scenarios of `consumer_join` and `consumer_epochs` do not
show."""

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
    snapshot,
    topic,
)

INTERVAL_MS = 5_000
"""The time between heartbeats, as members are told."""


def at(epoch: int, *partitions: int) -> dict[int, int]:
    """Partitions with their assignment epoch."""
    return dict.fromkeys(partitions, epoch)


def foo(**settings: Any) -> Shard:
    return Shard(topic("foo", FOO), **settings)


def scripted(**targets: dict[bytes, Any]) -> Scripted:
    return Scripted(target=targets)


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


def test_owned_partitions_that_are_to_be_revoked_do_not_count() -> None:
    shard = foo()
    shard.put_member(
        "m1",
        previous_member_epoch=9,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={FOO: at(10, 1)},
        pending_revocation={FOO: at(10, 2)},
    )
    shard.settle(m1={FOO: (1,)})
    assert shard.refused(9, owned={FOO: [1, 2]}) is ErrorCode.FENCED_MEMBER_EPOCH


def test_preferred_assignor_no_longer_configured() -> None:
    shard = foo()
    shard.put_member("m1", server_assignor="gone")
    shard.put_member("m2", server_assignor="gone")
    shard.settle()
    assert shard.beat(10, "m1", names=["foo", "x"]).error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_handler_alone_changes_no_hard_state() -> None:
    shard = foo()
    shard.beat(0)
    before = snapshot(shard.state)
    outcome = shard.handle(0, "m2")
    assert outcome.records
    assert snapshot(shard.state) == before


def two_members(**settings: Any) -> Shard:
    """G@10: m1 owns foo 0-2, m2 owns foo 3-5."""
    shard = foo(**settings)
    shard.put_member("m1", assigned={FOO: at(10, 0, 1, 2)})
    shard.put_member("m2", assigned={FOO: at(10, 3, 4, 5)})
    shard.settle(m1={FOO: (0, 1, 2)}, m2={FOO: (3, 4, 5)})
    return shard


def three_members() -> Shard:
    """m1 is to revoke foo-2, which m3 waits for."""
    shard = two_members(assignor=scripted(m1={FOO: (0, 1)}, m2={FOO: (3, 4, 5)}, m3={FOO: (2,)}))
    shard.beat(0, "m3")
    reply = shard.beat(10, owned={FOO: [0, 1, 2]})
    assert (reply.member_epoch, parts(reply.assignment)) == (10, {FOO: [0, 1]})
    return shard


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
    lease = shard.handle(10).reply_validity
    assert lease is not None
    assert lease.renew(shard.now.monotonic_ms)
    reply = shard.beat(10, names=["foo"], owned={}, timeout=60_000)
    assert reply.assignment is not None
    assert not lease.renew(shard.now.monotonic_ms)
    assert shard.handle(10).reply_validity is None
    shard.advance(2 * INTERVAL_MS)
    assert parts(shard.beat(10).assignment) == owned
    shard.beat(10, owned=owned)
    assert shard.handle(10).reply_validity is not None
