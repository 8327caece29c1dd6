"""Leaving through the heartbeat: for good (epoch -1) or, static, for a while (-2); spec 4."""

from __future__ import annotations

from msgspec.structs import replace

from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.fence import fence_members
from groupd.coordinator.core.consumer_group.group import ConsumerGroup, unknown_member
from groupd.coordinator.core.consumer_group.lookup import existing_group
from groupd.coordinator.core.consumer_group.member import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    PartitionEpochs,
)
from groupd.coordinator.core.consumer_group.static import check_instance
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome, RequestContext
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)


def handle(
    state: ShardState,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    now: Instant,
) -> Outcome:
    """`member_epoch` -1 or -2; all fields but the identity are ignored. Raises ApiError."""
    group = existing_group(state, request.group_id)
    member = _leaving_member(group, request)
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        outcome = _leave_for_a_while(group, member)
    else:
        outcome = fence_members(
            state, group, [member], EventKind.MEMBER_LEFT, "the member asked to leave", now
        )
    reply = ConsumerGroupHeartbeatReply(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    outcome.replies.append((context.token, reply))
    return outcome


def _leaving_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupMember:
    if request.instance_id is not None:
        return check_instance(group, request.member_id, request.instance_id)
    member = group.members.get(request.member_id)
    if member is None:
        raise unknown_member(group.group_id, request.member_id)
    return member


def _leave_for_a_while(group: ConsumerGroup, member: ConsumerGroupMember) -> Outcome:
    """The member keeps what it has; what it was revoking is released. The session timer keeps
    running from the last heartbeat."""
    away = replace(
        member,
        member_epoch=LEAVE_STATIC_EPOCH,
        assigned=_without_epochs(member.assigned),
        pending_revocation={},
    )
    return Outcome(
        records=[records.current_member(group.group_id, away)],
        gate=group.group_id,
        events=[events.member_away(group.group_id, member)],
    )


def _without_epochs(assigned: PartitionEpochs) -> PartitionEpochs:
    """Assignment epochs 0: they are compared with epochs of the next incarnation."""
    return {topic: dict.fromkeys(partitions, 0) for topic, partitions in assigned.items()}
