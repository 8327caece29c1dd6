"""The checks of the classic group protocol before the shard is asked.

The order is part of the protocol (classic spec, J1-J5, S1-S4, 2.3, 2.4). The shell's steps stand
between ours:

    JoinGroup   30 -> 15 -> 24 -> 26    -> shell: 16 not owned, 14 loading -> join.handle
    SyncGroup   23 -> 30 -> 15 -> 24    -> shell: 16, 14 (shown as 27)     -> sync.handle
    Heartbeat   30 -> 15 -> 24          -> shell: 16, 14 (shown as NONE)   -> heartbeat.handle
    LeaveGroup  30 -> 15 -> 24          -> shell: 16, 14                   -> leave.handle

15 (COORDINATOR_NOT_AVAILABLE) is raised here when the shell says that it is not `started`, because
it comes between our own checks. An ApiError of `check_join` is answered with `join_refusal`; for
one of another check, or for the shell's own 16 and 14, the `*_failure` functions build the reply:
they know what loading looks like to each API.
"""

from __future__ import annotations

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.classic_group.answers import (
    heartbeat_failure,
    join_failure,
    join_refusal,
    leave_failure,
    sync_failure,
)
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

__all__ = [
    "check_heartbeat",
    "check_join",
    "check_leave",
    "check_sync",
    "heartbeat_failure",
    "join_failure",
    "join_refusal",
    "leave_failure",
    "sync_failure",
]

_PROTOCOL_REQUIRED_FROM = 5


def check_join(
    config: CoordinatorConfig,
    context: RequestContext,
    request: JoinGroupRequest,
    *,
    started: bool = True,
) -> None:
    """J1-J4. Raises ApiError 30, 15, 24 or 26."""
    _check_group(context, request.group_id, started)
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not low <= request.session_timeout_ms <= high:
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)


def check_sync(
    config: CoordinatorConfig,
    context: RequestContext,
    request: SyncGroupRequest,
    *,
    started: bool = True,
) -> None:
    """S1-S3. Raises ApiError 23, 30, 15 or 24."""
    incomplete = request.protocol_type is None or request.protocol_name is None
    if incomplete and context.api_version >= _PROTOCOL_REQUIRED_FROM:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    _check_group(context, request.group_id, started)


def check_heartbeat(
    config: CoordinatorConfig,
    context: RequestContext,
    request: HeartbeatRequest,
    *,
    started: bool = True,
) -> None:
    """Raises ApiError 30, 15 or 24."""
    _check_group(context, request.group_id, started)


def check_leave(
    config: CoordinatorConfig,
    context: RequestContext,
    request: LeaveGroupRequest,
    *,
    started: bool = True,
) -> None:
    """Raises ApiError 30, 15 or 24."""
    _check_group(context, request.group_id, started)


def _check_group(context: RequestContext, group_id: str, started: bool) -> None:
    if not context.allows(Operation.READ, Resource.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not started:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if group_id == "":
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
