"""Heartbeat (12), v0-4. v1 adds throttle time, v3 the instance id, v4 is flexible."""

from __future__ import annotations

from groupd.protocol.messages.classic_group import HeartbeatReply, HeartbeatRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import OF_MEMBERS, api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=reader.string(),
        generation_id=reader.int32(),
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if reader.version >= 3 else None,
    )


def write(writer: Writer, reply: HeartbeatReply) -> None:
    if writer.version >= 1:
        writer.throttle_time()
    writer.int16(reply.error)


API = api(
    12, HeartbeatRequest, "0-4", "4+", read, write, code_only(HeartbeatReply), lane=OF_MEMBERS
)
