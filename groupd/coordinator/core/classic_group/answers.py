"""Replies of the classic group protocol.

Which member id stands in a JoinGroup error is part of the protocol (docs/spec/classic-group.md#J1
to #J19). If a check of the front end or of a classic group refused the request, the reply has the
member id of the request (`join_refusal`). Every other error has an empty id (`join_failure`): the
request was denied, did not reach the coordinator, failed, or was refused by a consumer group. The
handlers and the front end build all their error replies here.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.member import (
    ClassicGroupMember,
    Protocols,
    metadata_for,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatReply,
    HeartbeatRequest,
    JoinGroupMember,
    JoinGroupReply,
    JoinGroupRequest,
    LeaveGroupReply,
    LeaveGroupRequest,
    SyncGroupReply,
    SyncGroupRequest,
)
from groupd.protocol.messages.lazily import mapped

_HEARTBEATS = {code: HeartbeatReply(code) for code in ErrorCode}


def join_refusal(request: JoinGroupRequest, error: ApiError) -> JoinGroupReply:
    """The reply to a Join that a check refused. It has the member id of the request, unless the
    client was denied access."""
    denied = error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    return JoinGroupReply(error.code, member_id="" if denied else request.member_id)


def join_failure(request: JoinGroupRequest, error: ApiError) -> JoinGroupReply:
    """The reply to a Join that failed for any other reason. It has no member id."""
    return JoinGroupReply(error.code)


def sync_failure(request: SyncGroupRequest, error: ApiError) -> SyncGroupReply:
    """The reply to a Sync that failed. While the shard loads, the error is REBALANCE_IN_PROGRESS:
    the Java consumer stops at COORDINATOR_LOAD_IN_PROGRESS, but rejoins after REBALANCE_IN_PROGRESS
    (S4)."""
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS)
    return SyncGroupReply(error.code)


def heartbeat_failure(request: HeartbeatRequest, error: ApiError) -> HeartbeatReply:
    """The reply to a Heartbeat that failed. While the shard loads it is a success, because all
    sessions start afresh after the load anyway."""
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return heartbeat(ErrorCode.NONE)
    return heartbeat(error.code)


def leave_failure(request: LeaveGroupRequest, error: ApiError) -> LeaveGroupReply:
    """The reply to a LeaveGroup that failed as a whole. It has no members."""
    return LeaveGroupReply(error.code)


def heartbeat(code: ErrorCode) -> HeartbeatReply:
    """The reply to a Heartbeat. The reply objects are shared, because heartbeats are the most
    frequent request by far."""
    return _HEARTBEATS[code]


def joined(group: ClassicGroup, member: ClassicGroupMember) -> JoinGroupReply:
    """The reply to a Join that succeeded, at the current generation. Only the leader gets the list
    of members."""
    return JoinGroupReply(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_of(group) if group.leader_id == member.member_id else (),
    )


def members_of(group: ClassicGroup) -> Sequence[JoinGroupMember]:
    """Every member with its metadata for the chosen protocol, ascending by member id."""
    name = group.protocol_name
    offered = [
        (member.member_id, member.group_instance_id, member.protocols)
        for member in group.sorted_members()
    ]

    def shown(fields: tuple[str, str | None, Protocols]) -> JoinGroupMember:
        member_id, instance_id, protocols = fields
        return JoinGroupMember(member_id, instance_id, metadata_for(protocols, name))

    return mapped(shown, offered)


def synced(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupReply:
    return SyncGroupReply(
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
