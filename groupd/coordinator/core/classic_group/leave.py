"""LeaveGroup (13), docs/spec/classic-group.md#2.4, after the front end's checks.

Each entry is checked by itself; one rebalance follows for all of them. When the last member leaves,
the reply waits for the record of the empty group.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers, rebalance
from groupd.coordinator.core.classic_group.group import State
from groupd.coordinator.core.classic_group.lookup import require_classic
from groupd.coordinator.core.classic_group.operation import GroupOperation
from groupd.coordinator.core.group import left_by_request
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    LeaveGroupReply,
    LeaveGroupRequest,
    LeavingMember,
    LeftMember,
)


def handle(
    state: ShardState, context: RequestContext, request: LeaveGroupRequest, now: Instant
) -> Outcome:
    """Answers a LeaveGroup. Never raises ApiError: the outcome has every reply, errors included."""
    try:
        group = require_classic(state, request.group_id)
    except ApiError as error:
        reply = LeaveGroupReply(members=tuple(_left(e, error.code) for e in request.members))
        return Outcome(replies=[(context.token, reply)])
    if group.state is State.DEAD:
        dead = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        reply = answers.leave_failure(request, dead)
        return Outcome(replies=[(context.token, reply)])
    op = GroupOperation(state, group, now)
    left = tuple(_left(entry, _leave(op, context, entry)) for entry in request.members)
    gone = [entry.member_id for entry in left if entry.error is ErrorCode.NONE]
    if gone:
        who = f"member {gone[0]}" if len(gone) == 1 and gone[0] else f"{len(gone)} members"
        rebalance.after_removal(op, f"{who} left")
    op.outcome.replies.append((context.token, LeaveGroupReply(members=left)))
    return op.outcome


def _left(entry: LeavingMember, code: ErrorCode) -> LeftMember:
    return LeftMember(entry.member_id, entry.group_instance_id, code)


def _leave(op: GroupOperation, context: RequestContext, entry: LeavingMember) -> ErrorCode:
    group, member_id = op.group, entry.member_id
    if member_id == "":
        # An administrator removes a static member by its instance id alone.
        member_id = group.static_members.get(entry.group_instance_id or "", "")
    elif member_id in group.pending_members:
        op.forget_pending(member_id)
        return ErrorCode.NONE
    try:
        member = group.check_member(member_id, entry.group_instance_id)
    except ApiError as error:
        return error.code
    cause = left_by_request(context, member.client_id, member.client_host, entry.reason)
    op.drop(member, EventKind.MEMBER_LEFT, cause)
    return ErrorCode.NONE
