"""FindCoordinator (10), the same on every node: no shard is asked (spec: classic group, 7)."""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.groups import (
    FindCoordinatorReply,
    FindCoordinatorRequest,
    FoundCoordinator,
)

KEY_GROUP, KEY_TRANSACTION, KEY_SHARE = 0, 1, 2

NodeFor = Callable[[int, str], "Node | None"]
"""(key type, key) -> its coordinator; None while there is none."""

_DENIED = {
    KEY_GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    KEY_TRANSACTION: (
        Resource.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


def find_coordinator(
    context: RequestContext, request: FindCoordinatorRequest, node_for: NodeFor
) -> FindCoordinatorReply:
    """One entry per key asked for, duplicates included. Share keys are refused: groupd has no
    share groups."""
    return FindCoordinatorReply(
        tuple(_find(context, request.key_type, key, node_for) for key in request.keys)
    )


def _find(context: RequestContext, key_type: int, key: str, node_for: NodeFor) -> FoundCoordinator:
    if key_type not in _DENIED:
        return FoundCoordinator(
            key,
            error=ErrorCode.INVALID_REQUEST,
            error_message=f"coordinator key type {key_type} is not supported",
        )
    resource, denied = _DENIED[key_type]
    if not context.allows(Operation.DESCRIBE, resource, key):
        return FoundCoordinator(key, error=denied, error_message="")
    node = node_for(key_type, key)
    if node is None:
        return FoundCoordinator(key, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message="")
    return FoundCoordinator(key, node.node_id, node.host, node.port, error_message="")
