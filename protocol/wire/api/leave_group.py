"""LeaveGroup (13), v0-5. v1 adds throttle time, v3 many members with instance ids, v4 is
flexible, v5 adds the reason (KIP-800).

v0-2 name one member and answer its error at the top.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import LeaveGroupReply, LeaveGroupRequest, LeavingMember
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 4


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> LeaveGroupRequest:
    group_id = reader.string()
    if reader.version < 3:
        return LeaveGroupRequest(group_id, (LeavingMember(reader.string()),))
    members = reader.array(_read_member)
    reader.end()
    return LeaveGroupRequest(group_id, members)


def _read_member(reader: Reader) -> LeavingMember:
    member = LeavingMember(
        member_id=reader.string(),
        group_instance_id=reader.nullable_string(),
        reason=reader.nullable_string() if reader.version >= 5 else None,
    )
    reader.end()
    return member


def encode(reply: LeaveGroupReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 1:
        writer.int32(0)
    if version < 3:
        lift = reply.error == ErrorCode.NONE and reply.members
        writer.int16(reply.members[0].error if lift else reply.error)
        return writer.buffer
    writer.int16(reply.error)
    writer.array_length(len(reply.members))
    for member in reply.members:
        writer.string(member.member_id)
        writer.nullable_string(member.group_instance_id)
        writer.int16(member.error)
        writer.end()
    writer.end()
    return writer.buffer


def failure(_: LeaveGroupRequest, code: ErrorCode, __: str | None) -> LeaveGroupReply:
    return LeaveGroupReply(code)


API = Api(13, "LeaveGroup", 0, 5, _FLEXIBLE_FROM, LeaveGroupRequest, decode, encode, failure)
