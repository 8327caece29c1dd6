"""The checks of requests about share groups before a shard is asked, in this order
(docs/spec/share-group.md#1.4):

    ShareGroupHeartbeat       35 -> 30 -> 42 -> 29 -> 15 -> 42   shard: 16, 14
    ShareGroupDescribe        35 -> 30                           shard: 16, 14, 24
    DescribeShareGroupOffsets 35 -> 30 -> 15
    AlterShareGroupOffsets    35 -> 30 -> 15 -> 24               shard: 16, 14
    DeleteShareGroupOffsets   35 -> 30 -> 15 -> 24               shard: 16, 14

Topics of the last two are checked one by one: 29. Every `check_*` raises ApiError with the first
code that applies, before anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.frontend.groups import SUBSCRIBED_TOPICS_MAX
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_group import (
    AlteredShareOffsets,
    AlterShareGroupOffsetsReply,
    AlterShareGroupOffsetsRequest,
    DeletedShareOffsets,
    DeleteShareGroupOffsetsReply,
    DeleteShareGroupOffsetsRequest,
    DescribedShareGroup,
    ShareGroupHeartbeatRequest,
    ShareOffsetResult,
)

MEMBER_ID_MAX = 36
"""The most characters of a member id, which is a UUID as text."""

ALTERED_MAX = 2000
"""How many topics and partitions one AlterShareGroupOffsets or DeleteShareGroupOffsets may name."""


def check_heartbeat(
    config: CoordinatorConfig,
    context: RequestContext,
    request: ShareGroupHeartbeatRequest,
    started: bool,
) -> None:
    _check_group(config, context, Operation.READ, request.group_id)
    if not 0 < len(request.member_id) <= MEMBER_ID_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST)  # as in Kafka, without a text
    names = request.subscribed_topic_names
    if names is not None and len(names) > SUBSCRIBED_TOPICS_MAX:
        raise _invalid(f"{len(names)} SubscribedTopicNames; the most is {SUBSCRIBED_TOPICS_MAX}.")
    # Every topic is checked, so that the audit log names all that are denied.
    seen = [context.allows(Operation.DESCRIBE, Resource.TOPIC, name) for name in names or ()]
    if not all(seen):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not started:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if request.member_epoch == 0 and not names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < -1:
        raise _invalid("MemberEpoch is invalid.")


def check_describe(
    config: CoordinatorConfig, context: RequestContext, group_id: str
) -> DescribedShareGroup | None:
    """Checks one group of a ShareGroupDescribe. Returns the entry of a refused group, or None if
    the shard may be asked. Refused groups come first in the reply; the caller orders them."""
    try:
        _check_group(config, context, Operation.DESCRIBE, group_id)
    except ApiError as error:
        return DescribedShareGroup(group_id, error.code)
    return None


def check_describe_offsets(
    config: CoordinatorConfig, context: RequestContext, group_id: str, started: bool
) -> None:
    """Checks one group of a DescribeShareGroupOffsets."""
    _check_group(config, context, Operation.DESCRIBE, group_id)
    if not started:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def check_alter_offsets(
    config: CoordinatorConfig,
    context: RequestContext,
    request: AlterShareGroupOffsetsRequest,
    started: bool,
) -> None:
    _check_group(config, context, Operation.READ, request.group_id, _DENIED)
    count = len(request.topics) + sum([len(topic.partitions) for topic in request.topics])
    _check_change(request.group_id, count, started)


def check_delete_offsets(
    config: CoordinatorConfig,
    context: RequestContext,
    request: DeleteShareGroupOffsetsRequest,
    started: bool,
) -> None:
    _check_group(config, context, Operation.DELETE, request.group_id, _DENIED)
    _check_change(request.group_id, len(request.topics), started)


def admit_alteration(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> tuple[AlterShareGroupOffsetsRequest, Callable[[Any], Any]]:
    """The part of the request that the shard answers, and what makes the whole reply of its
    answer: first come the topics that the client may not read."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused, kept = [], []
    for topic in request.topics:
        if context.allows(Operation.READ, Resource.TOPIC, topic.name):
            kept.append(topic)
        else:
            results = [ShareOffsetResult(number, code) for number, _ in topic.partitions]
            refused.append(AlteredShareOffsets(topic.name, results))

    def finish(reply: AlterShareGroupOffsetsReply) -> AlterShareGroupOffsetsReply:
        return reply if reply.error else replace(reply, topics=[*refused, *reply.topics])

    return replace(request, topics=tuple(kept)), finish


def admit_deletion(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> tuple[DeleteShareGroupOffsetsRequest, Callable[[Any], Any]]:
    """The same for a deletion."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    allowed = {
        name: context.allows(Operation.READ, Resource.TOPIC, name)
        for name in dict.fromkeys(request.topics)
    }
    refused = [DeletedShareOffsets(name, error=code) for name, may in allowed.items() if not may]
    kept = tuple(name for name, may in allowed.items() if may)

    def finish(reply: DeleteShareGroupOffsetsReply) -> DeleteShareGroupOffsetsReply:
        return reply if reply.error else replace(reply, topics=[*refused, *reply.topics])

    return replace(request, topics=kept), finish


_DENIED = "Group authorization failed."
"""Only requests that change offsets are refused with a message, as in Kafka."""


def _check_group(
    config: CoordinatorConfig,
    context: RequestContext,
    operation: Operation,
    group_id: str,
    message: str | None = None,
) -> None:
    if not config.share_groups_enabled:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(operation, Resource.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, message)


def _check_change(group_id: str, count: int, started: bool) -> None:
    if not started:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if count > ALTERED_MAX:
        raise _invalid(f"{count} topics and partitions; the most is {ALTERED_MAX}.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
