"""JoinGroup (11), v0-9. v1 adds the rebalance timeout, v2 throttle time, v4 the round trip for
a member id (KIP-394), v5 the instance id, v6 is flexible, v7 adds the protocol type to the
reply and allows a null protocol name, v8 the reason, v9 skip_assignment."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, JoinGroupRequest, JoinProtocol
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 6


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> JoinGroupRequest:
    group_id = reader.string()
    session_timeout_ms = reader.int32()
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=reader.int32() if reader.version >= 1 else session_timeout_ms,
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if reader.version >= 5 else None,
        protocol_type=reader.string(),
        protocols=reader.array(_read_protocol),
        reason=reader.nullable_string() if reader.version >= 8 else None,
    )
    reader.end()
    return request


def _read_protocol(reader: Reader) -> JoinProtocol:
    protocol = JoinProtocol(reader.string(), reader.bytes_())
    reader.end()
    return protocol


def encode(reply: JoinGroupReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 2:
        writer.int32(0)
    writer.int16(reply.error)
    writer.int32(reply.generation_id)
    if version >= 7:
        writer.nullable_string(reply.protocol_type)
        writer.nullable_string(reply.protocol_name)
    else:
        writer.string(reply.protocol_name or "")
    writer.string(reply.leader)
    if version >= 9:
        writer.boolean(reply.skip_assignment)
    writer.string(reply.member_id)
    writer.array_length(len(reply.members))
    for member in reply.members:
        writer.string(member.member_id)
        if version >= 5:
            writer.nullable_string(member.group_instance_id)
        writer.bytes_(member.metadata)
        writer.end()
    writer.end()
    return writer.buffer


def failure(_: JoinGroupRequest, code: ErrorCode, __: str | None) -> JoinGroupReply:
    """The member id stays "": a reply that has to echo it is built by the handler."""
    return JoinGroupReply(code)


API = Api(11, "JoinGroup", 0, 9, _FLEXIBLE_FROM, JoinGroupRequest, decode, encode, failure)
