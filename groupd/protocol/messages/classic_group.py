"""The classic group protocol: JoinGroup (11), SyncGroup (14), Heartbeat (12), LeaveGroup (13)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode


class JoinProtocol(Struct, frozen=True):
    """A protocol that a member offers. `metadata` is opaque (a subscription for type
    "consumer")."""

    name: str
    metadata: bytes


class JoinGroupRequest(Struct, frozen=True):
    """In v0, which has no field for it, `rebalance_timeout_ms` equals the session timeout."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    group_instance_id: str | None = None
    reason: str | None = None


class JoinGroupMember(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupReply(Struct, frozen=True):
    """`protocol_name` None is written as "" in versions in which it cannot be null."""

    error: ErrorCode = ErrorCode.NONE
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: Sequence[JoinGroupMember] = ()


class SyncAssignment(Struct, frozen=True):
    member_id: str
    assignment: bytes


class SyncGroupRequest(Struct, frozen=True):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncAssignment, ...] = ()


class SyncGroupReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatRequest(Struct, frozen=True):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE


class LeavingMember(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroupRequest(Struct, frozen=True):
    """v0-2 carry one member: then `members` has one entry."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


class LeaveGroupReply(Struct, frozen=True):
    """For v0-2 the encoder writes the error of the only member as the top-level error."""

    error: ErrorCode = ErrorCode.NONE
    members: Sequence[LeftMember] = ()
