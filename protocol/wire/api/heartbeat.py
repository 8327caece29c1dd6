"""Heartbeat (12), v0-4. v1 adds throttle time, v3 the instance id, v4 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatReply, HeartbeatRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 4


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> HeartbeatRequest:
    request = HeartbeatRequest(
        group_id=reader.string(),
        generation_id=reader.int32(),
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if reader.version >= 3 else None,
    )
    reader.end()
    return request


def encode(reply: HeartbeatReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 1:
        writer.int32(0)
    writer.int16(reply.error)
    writer.end()
    return writer.buffer


def failure(_: HeartbeatRequest, code: ErrorCode, __: str | None) -> HeartbeatReply:
    return HeartbeatReply(code)


API = Api(12, "Heartbeat", 0, 4, _FLEXIBLE_FROM, HeartbeatRequest, decode, encode, failure)
