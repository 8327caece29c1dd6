"""FindCoordinator: which node coordinates a key. No shard is asked, and every node gives the same
answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from groupd.coordinator.core.partitioning import hash_work
from groupd.coordinator.core.slices import Pace, Steps
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.coordinator_types import (
    COORDINATOR_TYPES,
    CoordinatorType,
    KeyType,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.groups import (
    FindCoordinatorReply,
    FindCoordinatorRequest,
    FoundCoordinator,
)
from groupd.storage.units import Unit

MANY_KEYS_FROM = 4
"""Before this version a request has one key, and the answer says why the key was refused."""

_WORK_OF_A_KEY = 4
"""The cost of a key in items of `Pace`, besides its hash."""


def find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> None:
    """The route of FindCoordinator. A key that is there several times is answered once, at its
    first position."""
    broker.work.answer(context.token, _find(broker, context, request))


def _find(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> Steps[None]:
    find = _finder(broker, context, request.key_type)
    found: dict[str, FoundCoordinator] = {}
    pace = Pace()
    for key in request.keys:
        if key not in found:
            found[key] = find(key)
        if pace.due(_WORK_OF_A_KEY + hash_work(key)):
            yield
    context.token.answer(FindCoordinatorReply(tuple(found.values())))


def _finder(
    broker: Broker, context: RequestContext, key_type: int
) -> Callable[[str], FoundCoordinator]:
    """Returns a function that answers one key. Raises ApiError if the whole request fails."""
    coordinator = _coordinator_of(key_type)
    if coordinator is not None and context.api_version >= coordinator.keys.since:
        _check_right(context, coordinator.keys)
        return partial(_find_one, broker, context, coordinator)
    error = ErrorCode.INVALID_REQUEST
    message = f"coordinator key type {key_type} is not supported"
    return lambda key: FoundCoordinator(key, error=error, error_message=message)


def _coordinator_of(key_type: int) -> CoordinatorType | None:
    return next((one for one in COORDINATOR_TYPES if one.keys.number == key_type), None)


def _check_right(context: RequestContext, keys: KeyType) -> None:
    needed = Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
    if keys.brokers_only and not context.allows(*needed):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def _find_one(
    broker: Broker, context: RequestContext, coordinator: CoordinatorType, key: str
) -> FoundCoordinator:
    rights = coordinator.keys.rights
    if rights is not None and not context.allows(Operation.DESCRIBE, rights.resource, key):
        old = context.api_version < MANY_KEYS_FROM
        message = rights.message if old else ""
        return FoundCoordinator(key, error=rights.error, error_message=message)
    try:
        node = _node_of(broker, coordinator, key)
    except ApiError as error:
        return FoundCoordinator(key, error=error.code, error_message=error.message or "")
    if node is None:
        return FoundCoordinator(key, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="")
    node = node.on(context.listener)
    return FoundCoordinator(key, node.node_id, node.host, node.port, error_message="")


def _node_of(broker: Broker, coordinator: CoordinatorType, key: str) -> Node | None:
    """Returns the node of a key; None while it has none. Raises ApiError if the key is not
    valid."""
    if broker.ownership.only_leader() is None:
        return broker.node_for(coordinator.unit_of(key, broker.config))
    # One node serves all shards, so the shard of the key is not computed.
    coordinator.keys.hashed(key)
    return broker.node_for(Unit(coordinator.kind, 0))
