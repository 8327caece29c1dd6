"""FindCoordinator: the node that coordinates a key. No shard is asked, and every node gives the
same answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from groupd.coordinator.core.slices import Steps, distinct_in_steps, mapped_in_steps
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.coordinator_types import COORDINATOR_TYPES, CoordinatorType
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.groups import (
    FindCoordinatorReply,
    FindCoordinatorRequest,
    FoundCoordinator,
)

KEY_SHARE = 2
"""The key type of share partitions."""

MANY_KEYS_FROM = 4
"""Before this version a request is about one key, and the answer says why it was refused."""

SHARE_KEYS_FROM = 6
"""From this version on brokers may look for share keys."""


def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> None:
    """The route of FindCoordinator. A key that stands several times is answered once, where it
    stands first."""
    broker.work_on(context.token, _find(broker, context, request))


def _find(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> Steps[None]:
    keys = yield from distinct_in_steps(request.keys)
    _check(context, request.key_type)
    found = yield from mapped_in_steps(_finder(broker, context, request.key_type), keys)
    context.token.answer(FindCoordinatorReply(tuple(found)))


def _check(context: RequestContext, key_type: int) -> None:
    """Share keys are for brokers. Raises ApiError for the whole request."""
    guarded = key_type == KEY_SHARE and context.api_version >= SHARE_KEYS_FROM
    if guarded and not context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def _finder(
    broker: Broker, context: RequestContext, key_type: int
) -> Callable[[str], FoundCoordinator]:
    """What answers one key of the request."""
    for coordinator in COORDINATOR_TYPES:
        if coordinator.key_type == key_type:
            return partial(_find_one, broker, context, coordinator)
    error = ErrorCode.INVALID_REQUEST
    message = f"coordinator key type {key_type} is not supported"
    return lambda key: FoundCoordinator(key, error=error, error_message=message)


def _find_one(
    broker: Broker, context: RequestContext, coordinator: CoordinatorType, key: str
) -> FoundCoordinator:
    rights = coordinator.key_rights
    if rights is not None and not context.allows(Operation.DESCRIBE, rights.resource, key):
        old = context.api_version < MANY_KEYS_FROM
        message = rights.message if old else ""
        return FoundCoordinator(key, error=rights.error, error_message=message)
    try:
        unit = coordinator.unit_of(key, broker.config)
    except ApiError as error:
        return FoundCoordinator(key, error=error.code, error_message=error.message or "")
    node = broker.node_for(unit)
    if node is None:
        return FoundCoordinator(key, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="")
    node = node.on(context.listener)
    return FoundCoordinator(key, node.node_id, node.host, node.port, error_message="")
