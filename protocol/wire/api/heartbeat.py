"""Heartbeat (12), v0-4. v1 adds throttle time, v3 the instance id, v4 is flexible."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.classic_group import HeartbeatReply, HeartbeatRequest
from protocol.wire.decode import read_entity
from protocol.wire.encode import Writer
from protocol.wire.registry import Api


def decode(frame: bytes, offset: int, version: int) -> HeartbeatRequest:
    entity = read_entity("heartbeat", "HeartbeatRequest", version, frame, offset)
    return HeartbeatRequest(
        group_id=entity.group_id,
        generation_id=entity.generation_id,
        member_id=entity.member_id,
        group_instance_id=entity.group_instance_id if version >= 3 else None,
    )


def encode(reply: HeartbeatReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= 4)
    if version >= 1:
        writer.int32(0)
    writer.int16(reply.error)
    writer.end()
    return writer.buffer


def failure(_: HeartbeatRequest, code: ErrorCode, __: str | None) -> HeartbeatReply:
    return HeartbeatReply(code)


API = Api(12, "Heartbeat", 0, 4, 4, HeartbeatRequest, decode, encode, failure)
