"""Leaving and static members: what the scenarios of `consumer_leave` do not show."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.consumer_group.fence import remove_members
from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.types import EventKind
from tests.unit.consumer_group.harness import (
    BAR,
    FOO,
    Shard,
    parts,
    replayed,
    snapshot,
    topic,
)


def two_members(**settings: Any) -> Shard:
    """G@10; m1 is static (i1), m2 is not."""
    shard = Shard(topic("foo", FOO), topic("bar", BAR, 2), **settings)
    shard.put_member(
        "m1",
        instance_id="i1",
        assigned={FOO: {0: 10, 1: 9}},
        state=MemberState.UNREVOKED_PARTITIONS,
        pending_revocation={FOO: {2: 10}},
    )
    shard.put_member("m2", assigned={FOO: dict.fromkeys((3, 4, 5), 10)})
    shard.settle(m1={FOO: (0, 1)}, m2={FOO: (3, 4, 5)})
    return shard


def away(**settings: Any) -> Shard:
    """m1 left for a while; its session still has 40 s."""
    shard = two_members(**settings)
    shard.beat(10, instance="i1")
    shard.advance(5_000)
    reply = shard.beat(-2, instance="i1")
    assert (reply.member_epoch, reply.assignment, reply.heartbeat_interval_ms) == (-2, None, 0)
    return shard


def test_removing_several_members_bumps_once() -> None:
    shard = two_members()
    members = [shard.member("m1"), shard.member("m2")]
    shard.apply(remove_members(shard.state, shard.group, members, EventKind.MEMBER_LEFT, "test"))
    assert shard.shape() == ["T8", "T7", "T5", "T8", "T7", "T5", "R3", "R6"]
    assert shard.group.group_epoch == 11
    nobody = remove_members(shard.state, shard.group, [], EventKind.MEMBER_LEFT, "test")
    assert nobody.records == []


def test_a_static_member_that_leaves_releases_what_it_was_to_revoke() -> None:
    shard = away()
    member = shard.member()
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert (member.assigned, member.pending_revocation) == ({FOO: {0: 0, 1: 0}}, {})
    assert shard.due("session") == 40_000
    assert shard.group.partition_epochs.get(FOO, 0) == -2
    assert shard.group.partition_epochs.get(FOO, 2) == -1
    assert shard.group.state_name() == "Reconciling"


def test_a_static_member_may_come_back_under_its_old_id() -> None:
    shard = away()
    reply = shard.beat(0, "m1", instance="i1")
    assert shard.shape() == ["T8", "T7", "T5", "R5", "R7", "R8", "R8"]
    assert (reply.member_epoch, parts(reply.assignment)) == (10, {FOO: [0, 1]})
    assert sorted(shard.group.members) == ["m1", "m2"]
    assert shard.group.static_members == {"i1": "m1"}
    assert shard.group.partition_epochs.get(FOO, 0) == 10
    assert snapshot(replayed(shard)) == snapshot(shard.state)


def test_timers_of_a_replaced_id_do_nothing() -> None:
    shard = away()
    shard.beat(0, "m9", instance="i1")
    shard.advance(41_000)
    shard.fire()
    assert "m9" in shard.group.members
