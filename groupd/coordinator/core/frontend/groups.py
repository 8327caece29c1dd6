"""The checks of group requests before a shard is asked.

The order of the checks is part of the protocol. "Not started yet" (15) comes between the others, so
the checks take `started`:

    ConsumerGroupHeartbeat  35 -> 30 -> 42 -> 29 -> 15 -> 42 -> 112    shard: 16, 14
    JoinGroup               30 -> 15 -> 24 -> 26 -> 23 -> -1               shard: 16, 14
    SyncGroup               23 -> 30 -> 15 -> 24                 shard: 16, 14 (shown as 27)
    Heartbeat               30 -> 15 -> 24                       shard: 16, 14 (shown as 0)
    LeaveGroup              30 -> 15 -> 24                       shard: 16, 14

Before 29 and after 26, the number of things that one request names is checked (42; 23, then -1).
Every `check_*` raises ApiError with the first code that applies, before anything has changed. The
route puts the code into the reply (`groupd.coordinator.runtime.routes`).
"""

from __future__ import annotations

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
)
from groupd.protocol.messages.groups import (
    DeletedGroup,
    DescribedGroup,
)

FIRST_CLIENT_ID_VERSION = 1
"""From this version of ConsumerGroupHeartbeat on the client makes its member id (KIP-1082)."""

PROTOCOL_REQUIRED_FROM = 5
"""From this version of SyncGroup on it must name protocol type and protocol."""

JOIN_PROTOCOLS_MAX = 100
"""How many protocols a member may offer. Every vote looks at the protocols of all members."""

SUBSCRIBED_TOPICS_MAX = 10_000
"""How many topics a member may name. A client that wants more uses a regular expression."""

OWNED_PARTITIONS_MAX = 100_000
"""How many partitions a member may report as its own; each topic counts as one more."""

# The consumer protocol ----------------------------------------------------------------------


def check_consumer_heartbeat(
    config: CoordinatorConfig,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    started: bool,
) -> None:
    """In this order: the protocol is enabled; READ on the group; DESCRIBE on every named topic;
    started; the request's own fields."""
    if not config.consumer_protocol_enabled:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    allows = context.allows
    if not allows(Operation.READ, Resource.GROUP, request.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.subscribed_topic_names or request.topic_partitions:
        _check_sizes(request)
    names = request.subscribed_topic_names
    if names:
        # Every topic is checked, so that the audit log names all that are denied.
        seen = [allows(Operation.DESCRIBE, Resource.TOPIC, name) for name in names]
        if not all(seen):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not started:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
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


def _check_sizes(request: ConsumerGroupHeartbeatRequest) -> None:
    """Checks how many topics and partitions the request names, before any work that grows with
    their number. Kafka would refuse the record of such a member in the end, too."""
    names, owned = request.subscribed_topic_names or (), request.topic_partitions or ()
    if len(names) > SUBSCRIBED_TOPICS_MAX:
        raise _invalid(f"{len(names)} SubscribedTopicNames; the most is {SUBSCRIBED_TOPICS_MAX}.")
    count = len(owned)
    if count <= OWNED_PARTITIONS_MAX:
        count += sum([len(topic.partitions) for topic in owned])
    if count > OWNED_PARTITIONS_MAX:
        raise _invalid(f"More than {OWNED_PARTITIONS_MAX} partitions in TopicPartitions.")


def _check_identity(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    """Checks member id, group id and instance id. In v0 a joining member may let the coordinator
    choose its member id."""
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
    """Checks that a joining member sends its whole subscription and owns no partitions."""
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be given when joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be given when joining.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def check_consumer_describe(
    config: CoordinatorConfig, context: RequestContext, group_id: str
) -> DescribedConsumerGroup | None:
    """Checks one group of a ConsumerGroupDescribe. Returns the entry of a refused group, or None if
    the shard may be asked. Refused groups come first in the reply; the caller orders them."""
    if not config.consumer_protocol_enabled:
        return DescribedConsumerGroup(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(Operation.DESCRIBE, Resource.GROUP, group_id):
        return DescribedConsumerGroup(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None


# The classic protocol -----------------------------------------------------------------------


def check_join(
    config: CoordinatorConfig, context: RequestContext, request: JoinGroupRequest, started: bool
) -> None:
    """Checks a JoinGroup (docs/spec/classic-group.md#J1 to #J4)."""
    _check_group(context, request.group_id, started)
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
    protocols = request.protocols
    if len(protocols) > JOIN_PROTOCOLS_MAX:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if sum([len(protocol.metadata) for protocol in protocols]) > config.message_max_bytes:
        # No record of the group could hold it. Kafka would only say so after the leader's
        # SyncGroup.
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def check_sync(
    config: CoordinatorConfig, context: RequestContext, request: SyncGroupRequest, started: bool
) -> None:
    """Checks a SyncGroup (docs/spec/classic-group.md#S1 to #S3)."""
    incomplete = request.protocol_type is None or request.protocol_name is None
    if incomplete and context.api_version >= PROTOCOL_REQUIRED_FROM:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    _check_group(context, request.group_id, started)


def check_member(
    config: CoordinatorConfig,
    context: RequestContext,
    request: HeartbeatRequest | LeaveGroupRequest,
    started: bool,
) -> None:
    """Checks a Heartbeat or a LeaveGroup."""
    _check_group(context, request.group_id, started)


def check_describe(context: RequestContext, group_id: str) -> DescribedGroup | None:
    """Checks one group of a DescribeGroups. Returns the entry of a refused group, or None if the
    shard may be asked."""
    if not context.allows(Operation.DESCRIBE, Resource.GROUP, group_id):
        return DescribedGroup(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None


def check_delete(context: RequestContext, group_id: str) -> DeletedGroup | None:
    """Checks one group of a DeleteGroups. Returns the entry of a refused group, or None if the
    shard may be asked. Refused groups come last in the reply."""
    if not context.allows(Operation.DELETE, Resource.GROUP, group_id):
        return DeletedGroup(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return None


def _check_group(context: RequestContext, group_id: str, started: bool) -> None:
    if not context.allows(Operation.READ, Resource.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not started:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if group_id == "":
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
