"""AlterReplicaLogDirs (34), v1-2. v2 is flexible."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.replicas import (
    AlterReplicaLogDirsReply,
    AlterReplicaLogDirsRequest,
    AskedPartitions,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import read_named_partitions, write_partition_error
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> AlterReplicaLogDirsRequest:
    dirs = reader.structs(_dir)
    return AlterReplicaLogDirsRequest(dirs)


def _dir(reader: Reader) -> tuple[str, AskedPartitions]:
    path = reader.string()
    topics = reader.structs(read_named_partitions)
    return path, topics


def write(writer: Writer, reply: AlterReplicaLogDirsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)


def _write_topic(
    writer: Writer, topic: tuple[str, Sequence[tuple[int, ErrorCode]]]
) -> Generator[None, None, None]:
    name, partitions = topic
    writer.string(name)
    yield from writer.structs_in_steps(partitions, write_partition_error)


def failure(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, message: str | None
) -> AlterReplicaLogDirsReply:
    def topic(
        asked: tuple[str, tuple[int, ...]],
    ) -> tuple[str, Sequence[tuple[int, ErrorCode]]]:
        return asked[0], mapped(lambda item: (item, code), asked[1])

    return AlterReplicaLogDirsReply(
        mapped(topic, list(chain.from_iterable([topics for _, topics in request.dirs])))
    )


API = api(34, AlterReplicaLogDirsRequest, "1-2", "2+", read, write, failure)
