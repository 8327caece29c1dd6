"""docs/spec/consumer-group.md#11 "Leaving, static members, size" (CG-54 to CG-63)."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.consumer_group.fence import remove_members
from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from tests.unit.consumer_group.harness import (
    BAR,
    FOO,
    GROUP,
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
    """The group after CG-56: m1 left for a while; its session still has 40 s."""
    shard = two_members(**settings)
    shard.beat(10, instance="i1")
    shard.advance(5_000)
    reply = shard.beat(-2, instance="i1")
    assert (reply.member_epoch, reply.assignment, reply.heartbeat_interval_ms) == (-2, None, 0)
    return shard


def test_cg_54_member_leaves() -> None:
    shard = two_members()
    shard.beat(10, "m2")
    reply = shard.beat(-1, "m2")
    assert shard.shape() == ["T8", "T7", "T5", "R3"]
    assert (reply.member_id, reply.member_epoch) == ("m2", -1)
    assert (reply.heartbeat_interval_ms, reply.assignment) == (0, None)
    assert (shard.group.group_epoch, shard.group.assignment_epoch) == (11, 10)
    assert shard.due("session", "m2") is None
    assert shard.group.partition_epochs.get(FOO, 3) == -1
    assert shard.events(EventKind.MEMBER_LEFT)[0].member_id == "m2"


def test_cg_55_last_member_leaves() -> None:
    shard = two_members()
    shard.beat(-1, "m2")
    shard.beat(-1, "m1", instance="i1")
    assert shard.shape() == ["T8", "T7", "T5", "R3", "R6"]
    assert (shard.group.assignment_epoch, shard.group.assignment_timestamp_ms) == (12, 0)
    assert shard.group.state_name() == "Empty"
    assert shard.group.is_empty()
    assert snapshot(replayed(shard)) == snapshot(shard.state)


def test_removing_several_members_bumps_once() -> None:
    shard = two_members()
    members = [shard.member("m1"), shard.member("m2")]
    shard.apply(remove_members(shard.state, shard.group, members, EventKind.MEMBER_LEFT, "test"))
    assert shard.shape() == ["T8", "T7", "T5", "T8", "T7", "T5", "R3", "R6"]
    assert shard.group.group_epoch == 11
    nobody = remove_members(shard.state, shard.group, [], EventKind.MEMBER_LEFT, "test")
    assert nobody.records == []


def test_cg_56_static_member_leaves_for_a_while() -> None:
    shard = away()
    assert shard.shape() == ["R8"]
    member = shard.member()
    assert (member.member_epoch, member.previous_member_epoch) == (-2, 10)
    assert member.state is MemberState.UNREVOKED_PARTITIONS
    assert (member.assigned, member.pending_revocation) == ({FOO: {0: 0, 1: 0}}, {})
    assert shard.group.group_epoch == 10
    assert shard.due("session") == 40_000
    assert shard.group.partition_epochs.get(FOO, 0) == -2
    assert shard.group.partition_epochs.get(FOO, 2) == -1
    assert shard.group.state_name() == "Reconciling"


@pytest.mark.parametrize("new_id", ["m9", "m1"])
def test_cg_57_replaced_after_leaving(new_id: str) -> None:
    shard = away()
    reply = shard.beat(0, new_id, instance="i1")
    assert shard.shape() == ["T8", "T7", "T5", "R5", "R7", "R8", "R8"]
    assert (reply.member_epoch, parts(reply.assignment)) == (10, {FOO: [0, 1]})
    assert sorted(shard.group.members) == sorted(["m2", new_id])
    assert shard.group.static_members == {"i1": new_id}
    assert shard.group.group_epoch == 10
    assert shard.group.partition_epochs.get(FOO, 0) == 10
    assert shard.events(EventKind.MEMBER_REPLACED)[0].member_id == new_id
    assert snapshot(replayed(shard)) == snapshot(shard.state)


def test_cg_57_timers_of_the_old_id_do_nothing() -> None:
    shard = away()
    shard.beat(0, "m9", instance="i1")
    shard.advance(41_000)
    shard.fire()
    assert "m9" in shard.group.members


def test_cg_58_replaced_with_other_names() -> None:
    shard = away()
    reply = shard.beat(0, "m9", instance="i1", names=["foo", "bar"])
    assert shard.shape()[:8] == ["T8", "T7", "T5", "R5", "R7", "R8", "R5", "R3"]
    assert (reply.member_epoch, shard.group.group_epoch) == (11, 11)


@pytest.mark.parametrize("member", ["m1", "m9"])
def test_cg_59_instance_still_in_use(member: str) -> None:
    code = two_members().refused(0, member, instance="i1")
    assert code is ErrorCode.UNRELEASED_INSTANCE_ID


def test_cg_60_wrong_instance_or_owner() -> None:
    shard = two_members()
    for epoch in (10, -1, -2):
        assert shard.refused(epoch, "m9", instance="i1") is ErrorCode.FENCED_INSTANCE_ID
        assert shard.refused(epoch, instance="i9") is ErrorCode.UNKNOWN_MEMBER_ID


def test_cg_61_absent_static_member_expires() -> None:
    shard = away()
    shard.advance(40_000)
    (outcome,) = shard.fire()
    assert shard.shape() == ["T8", "T7", "T5", "R3"]
    assert outcome.events[0].kind is EventKind.MEMBER_FENCED
    assert list(shard.group.members) == ["m2"]


def test_cg_62_member_moves_to_a_new_instance() -> None:
    shard = two_members()
    shard.beat(0, "m1", instance="i7")
    assert shard.group.static_members == {"i7": "m1"}
    assert shard.group.group_epoch == 10


def test_cg_63_full_group() -> None:
    shard = two_members(consumer_max_size=2)
    assert shard.refused(0, "m3") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.refused(0, "m3", instance="i3") is ErrorCode.GROUP_MAX_SIZE_REACHED
    shard.beat(-2, instance="i1")
    assert shard.beat(0, "m3", instance="i1").error is ErrorCode.NONE
    assert len(shard.group.members) == 2
    assert GROUP in shard.state.groups
