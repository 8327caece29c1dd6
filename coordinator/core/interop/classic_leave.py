"""LeaveGroup on a consumer group with members (spec 8): each entry is judged by itself, those that
are valid go in one batch, members on the consumer protocol among them."""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.fence import fence_members
from groupd.coordinator.core.consumer_group.group import ConsumerGroup, unknown_member
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.static import check_instance
from groupd.coordinator.core.departures import left_by_request
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
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: LeaveGroupRequest,
    now: Instant,
) -> Outcome:
    """Never raises ApiError: errors stand with the members."""
    leaving: dict[str, ConsumerGroupMember] = {}
    causes: dict[str, str] = {}
    left: list[LeftMember] = []
    for entry in request.members:
        code = ErrorCode.NONE
        try:
            member = _member(group, entry)
        except ApiError as error:
            code = error.code
        else:
            leaving[member.member_id] = member
            causes[member.member_id] = left_by_request(
                context, member.client_id, member.client_host, entry.reason
            )
        left.append(LeftMember(entry.member_id, entry.group_instance_id, code))
    members = [leaving[member_id] for member_id in sorted(leaving)]
    cause = "; ".join(sorted(set(causes.values())))
    outcome = fence_members(state, group, members, EventKind.MEMBER_LEFT, cause, now, causes)
    outcome.replies.append((context.token, LeaveGroupReply(members=tuple(left))))
    return outcome


def _member(group: ConsumerGroup, entry: LeavingMember) -> ConsumerGroupMember:
    """Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID. An administrator removes a static member
    by its instance id alone."""
    if entry.group_instance_id is None:
        member = group.members.get(entry.member_id)
    elif entry.member_id:
        member = check_instance(group, entry.member_id, entry.group_instance_id)
    else:
        member = group.static_member(entry.group_instance_id)
    if member is None:
        raise unknown_member(group.group_id, entry.member_id)
    return member
