"""SyncGroup (14), v0-5. v1 adds throttle time, v3 the instance id, v4 is flexible, v5 adds
protocol type and name on both sides (KIP-559)."""

from __future__ import annotations

from groupd.protocol.messages.classic_group import SyncAssignment, SyncGroupReply, SyncGroupRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=reader.string(),
        generation_id=reader.int32(),
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if reader.version >= 3 else None,
        protocol_type=reader.nullable_string() if reader.version >= 5 else None,
        protocol_name=reader.nullable_string() if reader.version >= 5 else None,
        assignments=reader.structs(_read_assignment),
    )


def _read_assignment(reader: Reader) -> SyncAssignment:
    return SyncAssignment(reader.string(), reader.bytes_())


def write(writer: Writer, reply: SyncGroupReply) -> None:
    if writer.version >= 1:
        writer.throttle_time()
    writer.int16(reply.error)
    if writer.version >= 5:
        writer.nullable_string(reply.protocol_type)
        writer.nullable_string(reply.protocol_name)
    writer.bytes_(reply.assignment)


API = api(14, SyncGroupRequest, "0-5", "4+", read, write, code_only(SyncGroupReply))
