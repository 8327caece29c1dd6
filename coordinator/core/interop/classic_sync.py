"""SyncGroup on a consumer group with members (spec 8): the member fetches what it was given.

Nothing is submitted or written. A member that must revoke gets what it keeps; one that a newer
target has overtaken is sent back to JoinGroup.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.interop import classic_members
from groupd.coordinator.core.interop.classic_members import classic_member
from groupd.coordinator.core.interop.embedded_protocol import assignment_bytes, subscription_of
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import SyncGroupReply, SyncGroupRequest
from groupd.protocol.records.schema import ClassicMemberMetadata


def handle(
    state: ShardState,
    group: ConsumerGroup,
    context: RequestContext,
    request: SyncGroupRequest,
    now: Instant,
) -> Outcome:
    """Raises ApiError."""
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
    """Against the member's own first protocol: that is what its JoinGroup was answered."""
    first = classic.supported_protocols[0].name
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
        request.protocol_name not in (None, first)
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
