"""LeaveGroup (13), v0-5. v1 adds throttle time, v3 many members with instance ids, v4 is flexible,
v5 adds the reason (KIP-800).

v0-2 name one member and give its error at the top.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    LeaveGroupReply,
    LeaveGroupRequest,
    LeavingMember,
    LeftMember,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> LeaveGroupRequest:
    group_id = reader.string()
    if reader.version < 3:
        return LeaveGroupRequest(group_id, (LeavingMember(reader.string()),))
    members = reader.structs(_read_member)
    return LeaveGroupRequest(group_id, members)


def _read_member(reader: Reader) -> LeavingMember:
    return LeavingMember(
        member_id=reader.string(),
        group_instance_id=reader.nullable_string(),
        reason=reader.nullable_string() if reader.version >= 5 else None,
    )


def write(writer: Writer, reply: LeaveGroupReply) -> Generator[None, None, None]:
    if writer.version >= 1:
        writer.throttle_time()
    if writer.version < 3:
        lift = reply.error == ErrorCode.NONE and reply.members
        writer.int16(reply.members[0].error if lift else reply.error)
        return
    writer.int16(reply.error)
    yield from writer.structs_in_steps(reply.members, _write_member)


def _write_member(writer: Writer, member: LeftMember) -> None:
    writer.string(member.member_id)
    writer.nullable_string(member.group_instance_id)
    writer.int16(member.error)


API = api(13, LeaveGroupRequest, "0-5", "4+", read, write, code_only(LeaveGroupReply))
