"""AlterReplicaLogDirs (34), v1-2. v2 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import (
    AlterReplicaLogDirsReply,
    AlterReplicaLogDirsRequest,
    AskedPartitions,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.outcomes import read_named_partitions
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> AlterReplicaLogDirsRequest:
    dirs = reader.structs(_dir)
    return AlterReplicaLogDirsRequest(dirs)


def _dir(reader: Reader) -> tuple[str, AskedPartitions]:
    path = reader.string()
    topics = reader.structs(read_named_partitions)
    return path, topics


def write(writer: Writer, reply: AlterReplicaLogDirsReply) -> None:
    writer.int32(0)
    for name, partitions in writer.structs(reply.topics):
        writer.string(name)
        for partition, code in writer.structs(partitions):
            writer.int32(partition)
            writer.int16(code)


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


API = api(34, AlterReplicaLogDirsRequest, "1-2", "2+", read, write, failure)
