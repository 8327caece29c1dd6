"""Heartbeat on a consumer group with members (spec 8): how a classic member learns that it must
join again, because there is a newer target, because it has revoked, or because what it waits for
is free.

Kafka knows no other reason. When no member is left on the consumer protocol, however, a due target
is computed by nobody unless a classic member joins; `_is_stranded` is the reason that Kafka lacks.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group.answers import heartbeat
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.core.consumer_group.partition_epochs import FREE
from groupd.coordinator.core.consumer_group.target_assignment import is_target_due
from groupd.coordinator.core.interop import classic_members
from groupd.coordinator.core.interop.classic_members import classic_member
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatRequest


def handle(
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: HeartbeatRequest,
    now: Instant,
) -> Outcome:
    """Raises ApiError."""
    member, classic = classic_member(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    group_id, member_id = group.group_id, member.member_id
    classic_members.arm_session(state, group_id, member_id, classic.session_timeout_ms, now)
    code = ErrorCode.NONE
    if _must_rejoin(group, member) or _is_stranded(state, group, now):
        code = ErrorCode.REBALANCE_IN_PROGRESS
        classic_members.arm_join_if_absent(
            state, group_id, member_id, member.rebalance_timeout_ms, now
        )
    return Outcome(replies=[(context.token, heartbeat(code))], gate=group_id)


def _must_rejoin(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    if member.member_epoch < group.assignment_epoch:
        return True
    if member.state == MemberState.UNRELEASED_PARTITIONS:
        return not _is_blocked(group, member)
    return member.state == MemberState.UNREVOKED_PARTITIONS


def _is_stranded(state: ShardState, group: ConsumerGroup, now: Instant) -> bool:
    """A target is due and only a JoinGroup can compute it (`ConsumerGroup.rejoin_epoch`)."""
    if group.assignment_epoch >= min(group.rejoin_epoch, group.group_epoch):
        return False
    return group.is_classic_only() and is_target_due(state, group, group.group_epoch, now)


def _is_blocked(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Somebody else still holds a partition of its target."""
    return any(
        partition not in member.assigned.get(topic_id, ())
        and group.partition_epochs.get(topic_id, partition) != FREE
        for topic_id, partitions in group.targets.get(member.member_id, NO_TARGET).items()
        for partition in partitions
    )
