"""SyncGroup (14), v0-5. v1 adds throttle time, v3 the instance id, v4 is flexible, v5 adds
protocol type and name on both sides (KIP-559)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import SyncAssignment, SyncGroupReply, SyncGroupRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 4


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> SyncGroupRequest:
    request = SyncGroupRequest(
        group_id=reader.string(),
        generation_id=reader.int32(),
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if reader.version >= 3 else None,
        protocol_type=reader.nullable_string() if reader.version >= 5 else None,
        protocol_name=reader.nullable_string() if reader.version >= 5 else None,
        assignments=reader.array(_read_assignment),
    )
    reader.end()
    return request


def _read_assignment(reader: Reader) -> SyncAssignment:
    assignment = SyncAssignment(reader.string(), reader.bytes_())
    reader.end()
    return assignment


def encode(reply: SyncGroupReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 1:
        writer.int32(0)
    writer.int16(reply.error)
    if version >= 5:
        writer.nullable_string(reply.protocol_type)
        writer.nullable_string(reply.protocol_name)
    writer.bytes_(reply.assignment)
    writer.end()
    return writer.buffer


def failure(_: SyncGroupRequest, code: ErrorCode, __: str | None) -> SyncGroupReply:
    return SyncGroupReply(code)


API = Api(14, "SyncGroup", 0, 5, _FLEXIBLE_FROM, SyncGroupRequest, decode, encode, failure)
