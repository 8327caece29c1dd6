"""Heartbeat (12), docs/spec/classic-group.md#2.3, after the front end's checks.

A heartbeat changes nothing but the session's deadline. In CompletingRebalance it succeeds: the
member is to send its Sync, not to join again.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.classic_group.group import State
from groupd.coordinator.core.classic_group.lookup import require_classic
from groupd.coordinator.core.classic_group.operation import arm_session
from groupd.coordinator.core.classic_group.steady import ClassicHeartbeatLease
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatRequest


def handle(
    state: ShardState, context: RequestContext, request: HeartbeatRequest, now: Instant
) -> Outcome:
    """Never raises ApiError: every answer, also an error, is in the outcome."""
    try:
        code = _beat(state, request, now)
    except ApiError as error:
        reply = answers.heartbeat_failure(request, error)
        return Outcome(replies=[(context.token, reply)])
    outcome = Outcome(replies=[(context.token, answers.heartbeat(code))])
    outcome.steady = ClassicHeartbeatLease.of(state, request)
    return outcome


def _beat(state: ShardState, request: HeartbeatRequest, now: Instant) -> ErrorCode:
    group = require_classic(state, request.group_id)
    if group.state is State.DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    arm_session(state, group, member.member_id, member.session_timeout_ms, now)
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
