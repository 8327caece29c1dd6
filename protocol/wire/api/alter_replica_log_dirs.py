"""AlterReplicaLogDirs (34), v1-2. v2 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import (
    AlterReplicaLogDirsReply,
    AlterReplicaLogDirsRequest,
    AskedPartitions,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> AlterReplicaLogDirsRequest:
    dirs = reader.array(_dir)
    reader.end()
    return AlterReplicaLogDirsRequest(dirs)


def _dir(reader: Reader) -> tuple[str, AskedPartitions]:
    path = reader.string()
    topics = reader.array(_topic)
    reader.end()
    return path, topics


def _topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    name = reader.string()
    partitions = reader.int32_array()
    reader.end()
    return name, partitions


def encode(reply: AlterReplicaLogDirsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for name, partitions in reply.topics:
        writer.string(name)
        writer.array_length(len(partitions))
        for partition, code in partitions:
            writer.int32(partition)
            writer.int16(code)
            writer.end()
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str | None
) -> AlterReplicaLogDirsReply:
    return AlterReplicaLogDirsReply(
        tuple(
            (name, tuple((partition, code) for partition in partitions))
            for _, topics in request.dirs
            for name, partitions in topics
        )
    )


API = Api(
    34,
    "AlterReplicaLogDirs",
    1,
    2,
    _FLEXIBLE_FROM,
    AlterReplicaLogDirsRequest,
    decode,
    encode,
    failure,
)
