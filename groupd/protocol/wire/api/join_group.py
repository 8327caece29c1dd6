"""JoinGroup (11), v0-9. v1 adds the rebalance timeout, v2 throttle time, v4 the round trip for
a member id (KIP-394), v5 the instance id, v6 is flexible, v7 adds the protocol type to the
reply and allows a null protocol name, v8 the reason, v9 skip_assignment."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    JoinGroupMember,
    JoinGroupReply,
    JoinGroupRequest,
    JoinProtocol,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> JoinGroupRequest:
    group_id = reader.string()
    session_timeout_ms = reader.int32()
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=reader.int32() if reader.version >= 1 else session_timeout_ms,
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if reader.version >= 5 else None,
        protocol_type=reader.string(),
        protocols=reader.structs(_read_protocol),
        reason=reader.nullable_string() if reader.version >= 8 else None,
    )


def _read_protocol(reader: Reader) -> JoinProtocol:
    return JoinProtocol(reader.string(), reader.bytes_())


def write(writer: Writer, reply: JoinGroupReply) -> Generator[None, None, None]:
    if writer.version >= 2:
        writer.throttle_time()
    writer.int16(reply.error)
    writer.int32(reply.generation_id)
    if writer.version >= 7:
        writer.nullable_string(reply.protocol_type)
        writer.nullable_string(reply.protocol_name)
    else:
        writer.string(reply.protocol_name or "")
    writer.string(reply.leader)
    if writer.version >= 9:
        writer.boolean(reply.skip_assignment)
    writer.string(reply.member_id)
    yield from writer.structs_in_steps(reply.members, _write_member)


def _write_member(writer: Writer, member: JoinGroupMember) -> None:
    writer.string(member.member_id)
    if writer.version >= 5:
        writer.nullable_string(member.group_instance_id)
    writer.bytes_(member.metadata)


def failure(_: JoinGroupRequest, code: ErrorCode, __: str | None) -> JoinGroupReply:
    """The member id stays "". If a reply has to echo it, the handler builds that reply."""
    return JoinGroupReply(code)


API = api(11, JoinGroupRequest, "0-9", "6+", read, write, failure)
