"""Replies of the classic group protocol, with the echoes that clients expect.

Which member id stands in a JoinGroup error is part of the protocol: "" where the broker does not
vouch for the id (denied, not the coordinator, removed), the request's own id elsewhere (classic
spec, J1-J19). All replies to errors are built here, by the handlers and by the front end alike.
"""

from __future__ import annotations

from coordinator.core.classic_group.group import ClassicGroup
from coordinator.core.classic_group.member import ClassicGroupMember
from protocol.errors import ApiError, ErrorCode
from protocol.messages.classic_group import (
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

_NO_ECHO = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)

_HEARTBEATS = {code: HeartbeatReply(code) for code in ErrorCode}


def join_failure(request: JoinGroupRequest, error: ApiError) -> JoinGroupReply:
    member_id = "" if error.code in _NO_ECHO else request.member_id
    return JoinGroupReply(error.code, member_id=member_id)


def sync_failure(request: SyncGroupRequest, error: ApiError) -> SyncGroupReply:
    """While loading the answer is REBALANCE_IN_PROGRESS: the Java consumer takes
    COORDINATOR_LOAD_IN_PROGRESS here for fatal, but rejoins after this one (S4)."""
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return SyncGroupReply(ErrorCode.REBALANCE_IN_PROGRESS)
    return SyncGroupReply(error.code)


def heartbeat_failure(request: HeartbeatRequest, error: ApiError) -> HeartbeatReply:
    """While loading a heartbeat succeeds: the sessions start afresh after the load anyway."""
    if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return heartbeat(ErrorCode.NONE)
    return heartbeat(error.code)


def leave_failure(request: LeaveGroupRequest, error: ApiError) -> LeaveGroupReply:
    """An error of the whole request, without members."""
    return LeaveGroupReply(error.code)


def heartbeat(code: ErrorCode) -> HeartbeatReply:
    """A shared instance: heartbeats are the most frequent request by far."""
    return _HEARTBEATS[code]


def joined(group: ClassicGroup, member: ClassicGroupMember) -> JoinGroupReply:
    """Success at the current generation; the leader alone is told all members."""
    return JoinGroupReply(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_of(group) if group.leader_id == member.member_id else (),
    )


def members_of(group: ClassicGroup) -> tuple[JoinGroupMember, ...]:
    """Every member with its metadata for the chosen protocol, ascending by member id."""
    return tuple(
        JoinGroupMember(
            member.member_id, member.group_instance_id, member.metadata(group.protocol_name)
        )
        for member in group.sorted_members()
    )


def synced(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupReply:
    return SyncGroupReply(
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
