"""docs/spec/consumer-group.md#11 "Timers and configs" (CG-64 to CG-68)."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.consumer_group import fence
from groupd.coordinator.core.consumer_group.configs import (
    ASSIGNMENT_INTERVAL,
    CONFIGS,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    assignment_interval_ms,
)
from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.group_configs import GroupConfigs
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterConfig
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic

CONFIG = CoordinatorConfig()
TABLE = GroupConfigs(CONFIGS)
SET, DELETE, APPEND = 0, 1, 2


def change(
    config: CoordinatorConfig, current: dict[str, str], changes: list[tuple[str, int, Any]]
) -> dict[str, str]:
    return TABLE.alter(config, current, [AlterConfig(*each) for each in changes])


def joined() -> Shard:
    shard = Shard(topic("foo", FOO))
    shard.beat(0)
    return shard


def test_cg_64_session_expires() -> None:
    shard = joined()
    shard.advance(44_999)
    assert shard.fire() == []
    shard.beat(2)
    shard.advance(44_999)
    assert shard.fire() == []
    shard.advance(1)
    shard.fire()
    assert shard.shape() == ["T8", "T7", "T5", "R3", "R6"]
    (event,) = shard.events(EventKind.MEMBER_FENCED)
    assert "session timeout" in event.cause
    assert shard.group.group_epoch == 3
    assert shard.refused(2) is ErrorCode.UNKNOWN_MEMBER_ID


def revoking() -> Shard:
    """m1 has 30 s to give foo-1 up."""
    shard = Shard(topic("foo", FOO))
    shard.put_member("m1", rebalance_timeout_ms=30_000, assigned={FOO: {0: 10, 1: 10}})
    shard.put_member("m2")
    shard.settle(11, m1={FOO: (0,)}, m2={})
    shard.beat(10)
    assert shard.member().state is MemberState.UNREVOKED_PARTITIONS
    return shard


def test_cg_65_revocation_takes_too_long() -> None:
    shard = revoking()
    shard.advance(30_000)
    (outcome,) = shard.fire()
    assert shard.shape() == ["T8", "T7", "T5", "R3"]
    assert outcome.events[0].kind is EventKind.MEMBER_FENCED
    assert "not revoked within 30000 ms" in outcome.events[0].cause


def test_cg_65_epoch_moved_meanwhile() -> None:
    shard = revoking()
    shard.put_member("m1", member_epoch=11, assigned={FOO: {0: 10}})
    shard.advance(30_000)
    (outcome,) = shard.fire()
    assert outcome.records == []


def test_deadlines_without_their_member_or_group_do_nothing() -> None:
    shard = joined()
    for group, member in ((GROUP, "gone"), ("gone", "m1")):
        for kind in ("consumer-session", "consumer-rebalance"):
            assert fence.expire(shard.state, (kind, group, member), shard.now).records == []


def test_cg_66_timers_after_loading() -> None:
    shard = revoking()
    shard.advance(29_000)
    shard.reload()
    assert shard.due("session") == 45_000
    assert shard.due("session", "m2") == 45_000
    assert shard.due("rebalance") == 30_000
    assert shard.due("rebalance", "m2") is None
    shard.advance(30_000)
    assert len(shard.fire()) == 1
    assert list(shard.group.members) == ["m2"]


def test_cg_67_group_configs() -> None:
    shard = joined()
    shard.state.group_configs[GROUP] = {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "10000"}
    assert shard.beat(2).heartbeat_interval_ms == 10_000
    assert shard.due("session") == 50_000
    shard.state.group_configs[GROUP] = {SESSION_TIMEOUT: "70000"}
    assert shard.beat(2).heartbeat_interval_ms == 5000
    assert shard.due("session") == 60_000


def test_assignment_interval_of_the_group() -> None:
    assert assignment_interval_ms(CONFIG, None) == 1000
    assert assignment_interval_ms(CONFIG, {ASSIGNMENT_INTERVAL: "0"}) == 0
    assert assignment_interval_ms(CONFIG, {ASSIGNMENT_INTERVAL: "99999"}) == 15_000


@pytest.mark.parametrize(
    "changes",
    [
        [(SESSION_TIMEOUT, SET, "1000")],
        [("no.such.thing", SET, "1")],
        [(SESSION_TIMEOUT, SET, "soon")],
        [(SESSION_TIMEOUT, APPEND, "50000")],
        [("consumer.assignor.offload.enable", SET, "false")],
        [(ASSIGNMENT_INTERVAL, SET, "15001")],
    ],
)
def test_cg_68_refused_changes(changes: list[tuple[str, int, Any]]) -> None:
    with pytest.raises(ApiError) as refused:
        change(CONFIG, {}, changes)
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_cg_68_session_must_exceed_heartbeat() -> None:
    config = CoordinatorConfig(
        consumer_min_session_timeout_ms=1000, consumer_max_heartbeat_interval_ms=60_000
    )
    for changes in (
        [(SESSION_TIMEOUT, SET, "5000")],
        [(SESSION_TIMEOUT, SET, "50000"), (HEARTBEAT_INTERVAL, SET, "50000")],
    ):
        with pytest.raises(ApiError) as refused:
            change(config, {}, changes)
        assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_alter_is_incremental_and_leaves_its_input_alone() -> None:
    current = {SESSION_TIMEOUT: "50000"}
    altered = change(CONFIG, current, [(HEARTBEAT_INTERVAL, SET, "6000")])
    assert altered == {SESSION_TIMEOUT: "50000", HEARTBEAT_INTERVAL: "6000"}
    assert current == {SESSION_TIMEOUT: "50000"}
    assert change(CONFIG, altered, [(SESSION_TIMEOUT, DELETE, None)]) == {
        HEARTBEAT_INTERVAL: "6000"
    }
    assert change(CONFIG, altered, [("no.such.thing", DELETE, None)]) == altered


def test_described_values_are_the_effective_ones() -> None:
    found = {one.name: one for one in TABLE.describe(CONFIG, {SESSION_TIMEOUT: "70000"})}
    assert sorted(found) == sorted([SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL])
    session = found[SESSION_TIMEOUT]
    assert (session.value, session.is_default, session.source) == ("60000", False, 8)
    heartbeat = found[HEARTBEAT_INTERVAL]
    assert (heartbeat.value, heartbeat.is_default, heartbeat.source) == ("5000", True, 5)
