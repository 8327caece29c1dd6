"""Heartbeat, SyncGroup and LeaveGroup on a consumer group with members
(docs/spec/consumer-group.md#8).

The reply to a Heartbeat tells a classic member that it must join again: because there is a newer
target, because it has partitions to revoke, or because what it waits for is free. Kafka has no
other reason. But when no member on the consumer protocol is left, a target that is due is only
computed when a classic member joins; `_is_stranded` adds that reason.

By SyncGroup the member fetches its assignment; it does not send one, and nothing is written. A
member that must revoke gets the partitions that it keeps. If there is a newer target than the
member's, it has to send JoinGroup again.

Each entry of a LeaveGroup is checked by itself. The valid entries go into one batch, also those of
members on the consumer protocol.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE
from groupd.coordinator.core.consumer_group.fence import fence_members
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup, unknown_member
from groupd.coordinator.core.consumer_group.lookup import existing_member
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.core.consumer_group.partition_epochs import FREE
from groupd.coordinator.core.consumer_group.target_assignment import is_target_due
from groupd.coordinator.core.group import left_by_request
from groupd.coordinator.core.interop import classic_members
from groupd.coordinator.core.interop.classic_members import classic_member
from groupd.coordinator.core.interop.embedded_protocol import assignment_bytes, subscription_of
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    LeaveGroupReply,
    LeaveGroupRequest,
    LeavingMember,
    LeftMember,
    SyncGroupReply,
    SyncGroupRequest,
)
from groupd.protocol.records.schema import ClassicMemberMetadata


def heartbeat(
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: HeartbeatRequest,
    now: Instant,
) -> Outcome:
    """Answers a Heartbeat. Raises ApiError."""
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
    return Outcome(replies=[(context.token, answers.heartbeat(code))], gate=group_id)


def _must_rejoin(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    if member.member_epoch < group.assignment_epoch:
        return True
    if member.state == MemberState.UNRELEASED_PARTITIONS:
        return not _is_blocked(group, member)
    return member.state == MemberState.UNREVOKED_PARTITIONS


def _is_stranded(state: ShardState, group: ConsumerGroup, now: Instant) -> bool:
    """Whether a target is due that only a JoinGroup can compute (`ConsumerGroup.rejoin_epoch`)."""
    if group.assignment_epoch >= min(group.rejoin_epoch, group.group_epoch):
        return False
    return group.is_classic_only() and is_target_due(state, group, group.group_epoch, now)


def _is_blocked(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether another member still holds a partition of the member's target."""
    return any(
        partition not in member.assigned.get(topic_id, ())
        and group.partition_epochs.get(topic_id, partition) != FREE
        for topic_id, partitions in group.targets.get(member.member_id, NO_TARGET).items()
        for partition in partitions
    )


def sync(
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: SyncGroupRequest,
    now: Instant,
) -> Outcome:
    """Answers a SyncGroup. Raises ApiError."""
    member, classic = classic_member(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    _check_protocol(classic, request)
    group_id, member_id = group.group_id, member.member_id
    revokes = member.state == MemberState.UNREVOKED_PARTITIONS
    if group.assignment_epoch > member.member_epoch and not revokes:
        classic_members.arm_join_if_absent(
            state, group_id, member_id, member.rebalance_timeout_ms, now
        )
        reply = SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS)
        return Outcome(replies=[(context.token, reply)], gate=group_id)
    version = subscription_of(classic.supported_protocols).version
    reply = SyncGroupReply(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(member.assigned, version, state.image),
    )
    classic_members.synced(state, group_id, member_id)
    classic_members.arm_session(state, group_id, member_id, classic.session_timeout_ms, now)
    return Outcome(replies=[(context.token, reply)], gate=group_id)


def _check_protocol(classic: ClassicMemberMetadata, request: SyncGroupRequest) -> None:
    """Compares the protocol of the request with the first one of the member, because that is the
    one that the reply to its JoinGroup named."""
    first = classic.supported_protocols[0].name
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
        request.protocol_name not in (None, first)
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def leave(
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: LeaveGroupRequest,
    now: Instant,
) -> Outcome:
    """Answers a LeaveGroup. Never raises ApiError: the errors are in the entries of the members."""
    leaving: dict[str, ConsumerGroupMember] = {}
    causes: dict[str, str] = {}
    left: list[LeftMember] = []
    for entry in request.members:
        code = ErrorCode.NONE
        try:
            member = _leaving_member(group, entry)
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


def _leaving_member(group: ConsumerGroup, entry: LeavingMember) -> ConsumerGroupMember:
    """The member of an entry. Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID. An administrator
    removes a static member by its instance id alone."""
    if entry.group_instance_id is None or entry.member_id:
        return existing_member(group, entry.member_id, entry.group_instance_id)
    member = group.static_member(entry.group_instance_id)
    if member is None:
        raise unknown_member(group.group_id, entry.member_id)
    return member
