"""Front-end checks of ConsumerGroupHeartbeat and ConsumerGroupDescribe (spec 2, rows 1-9).

Order: `check_access` (rows 1-3), then the shell's row 4 (coordinator not started), then
`check_request` (rows 5-9), then the shell's row 10 (partition not hosted, loading).
"""

from __future__ import annotations

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
)

FIRST_CLIENT_ID_VERSION = 1
"""From this version on the client generates its member id (KIP-1082)."""


def check_access(
    config: CoordinatorConfig, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> None:
    """Rows 1-3: protocol enabled, READ on the group, DESCRIBE on every named topic."""
    if not config.consumer_protocol_enabled:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for topic in request.subscribed_topic_names or ():
        if not context.allows(Operation.DESCRIBE, Resource.TOPIC, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def check_request(
    config: CoordinatorConfig, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> None:
    """Rows 5-9: the shape of the request."""
    _check_identity(context, request)
    if request.member_epoch == 0:
        _check_join(request)
    elif request.member_epoch == -2:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null when a static member leaves for a while.")
    elif request.member_epoch < -2:
        raise _invalid(f"MemberEpoch is {request.member_epoch}; the least is -2.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.consumer_assignors:
        known = ", ".join(config.consumer_assignors)
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: {known}.",
        )


def _check_identity(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    """Rows 5 and 6. In v0 a joining member may leave its id to the coordinator."""
    needs_id = (
        context.api_version >= FIRST_CLIENT_ID_VERSION
        or request.member_epoch > 0
        or request.member_epoch == -1
    )
    if needs_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    """Row 7: a joining member says everything and owns nothing."""
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be given when joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be given when joining.")


def check_describe(
    config: CoordinatorConfig, context: RequestContext, group_id: str
) -> DescribedConsumerGroup | None:
    """One group of a Describe request: its refusal, or None if the shard may be asked.

    Groups refused for lack of DESCRIBE stand first in the reply; the caller orders them.
    """
    if not config.consumer_protocol_enabled:
        return DescribedConsumerGroup(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(Operation.DESCRIBE, Resource.GROUP, group_id):
        return DescribedConsumerGroup(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
