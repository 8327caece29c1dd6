"""docs/spec/consumer-group.md#11 "Epochs and idempotency" (CG-29 to CG-33)."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.protocol.errors import ErrorCode
from tests.unit.consumer_group.harness import FOO, Shard, parts, topic


def at_100(**changes: Any) -> Shard:
    shard = Shard(topic("foo", FOO, 12))
    given = {"assigned": {FOO: dict.fromkeys((1, 2, 3), 100)}, **changes}
    shard.put_member("m1", member_epoch=100, previous_member_epoch=99, **given)
    shard.settle(100, m1={FOO: (1, 2, 3)})
    return shard


@pytest.mark.parametrize(
    ("epoch", "owns"), [(200, None), (50, None), (99, None), (99, {FOO: [9]}), (50, {FOO: [1]})]
)
def test_cg_29_wrong_epoch(epoch: int, owns: Any) -> None:
    assert at_100().refused(epoch, owned=owns) is ErrorCode.FENCED_MEMBER_EPOCH


def test_cg_29_pending_partitions_do_not_count() -> None:
    shard = at_100(
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={FOO: {1: 100}},
        pending_revocation={FOO: {2: 100}},
    )
    assert shard.refused(99, owned={FOO: [1, 2]}) is ErrorCode.FENCED_MEMBER_EPOCH


def test_cg_30_lost_reply() -> None:
    reply = at_100().beat(99, owned={FOO: [1, 2]})
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, 100)


@pytest.mark.parametrize("state", ["stable", "unrevoked", "unreleased"])
def test_cg_31_full_heartbeat_twice(state: str) -> None:
    shard = at_100()
    owns: dict[bytes, list[int]] = {FOO: [1, 2, 3]}
    if state == "unrevoked":
        shard.settle(101, m1={FOO: (1, 2)})
    if state == "unreleased":
        shard.put_member("m2", member_epoch=100, assigned={FOO: {4: 100}})
        shard.settle(101, m1={FOO: (1, 2, 3, 4)}, m2={})
    full: dict[str, Any] = {"names": ["foo"], "owned": owns, "timeout": 60_000}
    shard.beat(100, **full)
    # The record that only moves the previous epoch is CG-24.
    shard.beat(shard.member().member_epoch, **full)
    first = shard.beat(shard.member().member_epoch, **full)
    assert first.assignment is not None
    second = shard.beat(shard.member().member_epoch, **full)
    assert second == first
    assert shard.shape() == []
    assert shard.member().state.name.lower().startswith(state)


def test_cg_32_stable_member_rejoins() -> None:
    shard = at_100()
    reply = shard.beat(0)
    assert (reply.member_epoch, parts(reply.assignment)) == (100, {FOO: [1, 2, 3]})
    assert shard.shape() == []


def test_cg_33_rejoin_while_revoking() -> None:
    shard = at_100(
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={FOO: {0: 100, 1: 100}},
        pending_revocation={FOO: {2: 100}},
    )
    shard.settle(101, m1={FOO: (0, 1)})
    reply = shard.beat(0)
    assert (reply.member_epoch, parts(reply.assignment)) == (101, {FOO: [0, 1]})
    assert shard.due("rebalance") is None
