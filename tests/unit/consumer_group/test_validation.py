"""docs/spec/consumer-group.md#11 "Gating and validation" (CG-01 to CG-13); front-end rows in
their order."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.frontend.groups import (
    check_consumer_describe,
    check_consumer_heartbeat,
)
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from tests.support.access import ByRule, allow_all
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, owned, topic

JOIN: dict[str, Any] = {
    "group_id": GROUP,
    "member_id": "m1",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ("foo",),
    "topic_partitions": (),
}


def check(
    version: int = 1, started: bool = True, allows: Any = allow_all, **fields: Any
) -> ErrorCode:
    """The code that the front end answers; NONE if it passes the request on."""
    settings = {
        name: fields.pop(name)
        for name in ("group_version", "rebalance_protocols")
        if name in fields
    }
    request = ConsumerGroupHeartbeatRequest(**{**JOIN, **fields})
    context = RequestContext(1, version, access=ByRule(allows))
    config = CoordinatorConfig(**settings)
    try:
        check_consumer_heartbeat(config, context, request, started)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


@pytest.mark.parametrize("epoch", [0, 5, -1])
def test_cg_01_02_protocol_disabled(epoch: int) -> None:
    off = ErrorCode.UNSUPPORTED_VERSION
    assert check(group_version=0, member_epoch=epoch) is off
    assert check(rebalance_protocols=("classic",), member_epoch=epoch) is off


def test_cg_02_describe_gate_and_authorisation() -> None:
    classic_only = CoordinatorConfig(rebalance_protocols=("classic",))
    context = RequestContext(1, 1)
    for group in ("a", "b"):
        refusal = check_consumer_describe(classic_only, context, group)
        assert refusal is not None
        assert (refusal.group_id, refusal.error) == (group, ErrorCode.UNSUPPORTED_VERSION)
    assert check_consumer_describe(CoordinatorConfig(), context, "a") is None
    denied = RequestContext(
        1,
        1,
        access=ByRule(lambda op, kind, name: (op, kind) != (Operation.DESCRIBE, Resource.GROUP)),
    )
    refusal = check_consumer_describe(CoordinatorConfig(), denied, "a")
    assert refusal is not None
    assert refusal.error is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_join_passes() -> None:
    assert check() is ErrorCode.NONE
    empty = {"subscribed_topic_names": (), "subscribed_topic_regex": None}
    assert check(**empty) is ErrorCode.NONE
    assert check(subscribed_topic_names=None, subscribed_topic_regex="") is ErrorCode.NONE


def test_cg_03_member_id_is_checked_first() -> None:
    with pytest.raises(ApiError, match="MemberId"):
        check_consumer_heartbeat(
            CoordinatorConfig(),
            RequestContext(1, 1),
            ConsumerGroupHeartbeatRequest(**{**JOIN, "member_id": "", "group_id": ""}),
            True,
        )


def test_cg_04_v0_may_leave_the_member_id_out() -> None:
    assert check(version=0, member_id="") is ErrorCode.NONE
    for epoch in (5, -1):
        code = check(version=0, member_id="", member_epoch=epoch)
        assert code is ErrorCode.INVALID_REQUEST
    shard = Shard(topic("foo", FOO))
    reply = shard.beat(0, "")
    assert reply.member_id == "generated-1"
    assert list(shard.group.members) == ["generated-1"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"group_id": "  "}, id="CG-05 group"),
        pytest.param({"instance_id": ""}, id="CG-05 instance"),
        pytest.param({"rack_id": " "}, id="CG-05 rack"),
        pytest.param({"rebalance_timeout_ms": -1}, id="CG-06 timeout"),
        pytest.param({"topic_partitions": None}, id="CG-06 owned null"),
        pytest.param({"topic_partitions": owned({FOO: [0]})}, id="CG-06 owned"),
        pytest.param({"subscribed_topic_names": None}, id="CG-06 subscription"),
        pytest.param({"member_epoch": -2}, id="CG-07 no instance"),
        pytest.param({"member_epoch": -3}, id="CG-07 epoch"),
    ],
)
def test_malformed_requests(fields: dict[str, Any]) -> None:
    assert check(**fields) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("epoch", [0, 5, -1])
def test_cg_08_unsupported_assignor(epoch: int) -> None:
    code = check(member_epoch=epoch, server_assignor="bar")
    assert code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_cg_09_authorisation_comes_first() -> None:
    def no_group(operation: Operation, resource: Resource, name: str) -> bool:
        return (operation, resource) != (Operation.READ, Resource.GROUP)

    def no_bar(operation: Operation, resource: Resource, name: str) -> bool:
        return (operation, resource, name) != (Operation.DESCRIBE, Resource.TOPIC, "bar")

    assert check(allows=no_group, member_id="") is ErrorCode.GROUP_AUTHORIZATION_FAILED
    code = check(allows=no_bar, member_id="", subscribed_topic_names=("foo", "bar"))
    assert code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert check(allows=no_bar) is ErrorCode.NONE


def test_cg_10_not_started_stands_between_access_and_shape() -> None:
    assert check(started=False, member_id="") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert check(started=False, group_version=0) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("epoch", [100, -1])
def test_cg_11_missing_group(epoch: int) -> None:
    assert Shard().refused(epoch) is ErrorCode.GROUP_ID_NOT_FOUND


def one_member(**settings: Any) -> Shard:
    shard = Shard(topic("foo", FOO), **settings)
    shard.put_member("m1", assigned={FOO: dict.fromkeys(range(6), 10)})
    shard.settle(m1={FOO: range(6)})
    return shard


def test_cg_12_unknown_member_and_full_group() -> None:
    assert one_member().refused(1, "m2") is ErrorCode.UNKNOWN_MEMBER_ID
    assert one_member().refused(-1, "m2") is ErrorCode.UNKNOWN_MEMBER_ID
    full = one_member(consumer_max_size=1)
    assert full.refused(1, "m2") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert full.beat(10).error is ErrorCode.NONE


class ShareGroup:
    """A group of a type that has nothing to do with consumer groups."""

    group_id = GROUP
    type_name = "share"


def test_cg_13_group_of_another_type() -> None:
    shard = Shard(topic("foo", FOO))
    shard.state.groups[GROUP] = ShareGroup()
    for epoch in (0, 1, -1):
        assert shard.refused(epoch) is ErrorCode.GROUP_ID_NOT_FOUND


def test_cg_74_empty_classic_group_makes_way() -> None:
    shard = Shard(topic("foo", FOO), consumer_migration_policy="disabled")
    shard.state.groups[GROUP] = ClassicGroup(GROUP, protocol_type="consumer")
    assert shard.refused(5) is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.beat(0).member_epoch == 2
    assert shard.shape() == ["T2", "R5", "R3", "R7", "R6", "R8"]
    assert shard.group.state_name() == "Stable"
