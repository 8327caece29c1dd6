"""Heartbeats that are refused: what the scenarios of `consumer_validation` do not show."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.frontend.groups import (
    check_consumer_heartbeat,
)
from groupd.coordinator.core.types import RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from tests.support.access import ByRule, allow_all
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic

JOIN: dict[str, Any] = {
    "group_id": GROUP,
    "member_id": "m1",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ("foo",),
    "topic_partitions": (),
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"subscribed_topic_names": (), "subscribed_topic_regex": None},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
    ],
)
def test_a_join_passes(fields: dict[str, Any]) -> None:
    request = ConsumerGroupHeartbeatRequest(**{**JOIN, **fields})
    context = RequestContext(1, 1, access=ByRule(allow_all))
    check_consumer_heartbeat(CoordinatorConfig(), context, request, True)


def test_the_protocol_is_off_before_the_coordinator_is_not_there() -> None:
    with pytest.raises(ApiError) as refused:
        check_consumer_heartbeat(
            CoordinatorConfig(group_version=0),
            RequestContext(1, 1),
            ConsumerGroupHeartbeatRequest(**JOIN),
            False,
        )
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


class ShareGroup:
    """A group of a type that has nothing to do with consumer groups."""

    group_id = GROUP
    type_name = "share"


def test_cg_13_group_of_another_type() -> None:
    shard = Shard(topic("foo", FOO))
    shard.state.groups[GROUP] = ShareGroup()
    for epoch in (0, 1, -1):
        assert shard.refused(epoch) is ErrorCode.GROUP_ID_NOT_FOUND
