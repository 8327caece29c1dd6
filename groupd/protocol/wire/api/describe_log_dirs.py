"""DescribeLogDirs (35), v1-5. v2 is flexible, v3 adds an error of the whole request, v4 the size of
the volume, v5 whether new partitions may be placed there (KIP-1066)."""

from __future__ import annotations

from collections.abc import Collection, Generator

from groupd.protocol.messages.replicas import DescribeLogDirsReply, DescribeLogDirsRequest, LogDir
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import read_named_partitions
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeLogDirsRequest:
    topics = reader.nullable_structs(read_named_partitions)
    return DescribeLogDirsRequest(topics)


def write(writer: Writer, reply: DescribeLogDirsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    if writer.version >= 3:
        writer.int16(reply.error)
    yield from writer.long_structs_in_steps(reply.log_dirs, _write_dir)


def _write_dir(writer: Writer, log_dir: LogDir) -> Generator[None, None, None]:
    writer.int16(log_dir.error)
    writer.string(log_dir.path)
    yield from writer.long_structs_in_steps(log_dir.topics, _write_topic)
    if writer.version >= 4:
        writer.int64(log_dir.total_bytes)
        writer.int64(log_dir.usable_bytes)
    if writer.version >= 5:
        writer.boolean(False)  # cordoned


def _write_topic(
    writer: Writer, topic: tuple[str, Collection[tuple[int, int]]]
) -> Generator[None, None, None]:
    name, partitions = topic
    writer.string(name)
    yield from writer.structs_in_steps(partitions, _write_size)


def _write_size(writer: Writer, size: tuple[int, int]) -> None:
    writer.int32(size[0])
    writer.int64(size[1])
    writer.int64(0)  # no lag: there is one replica
    writer.boolean(False)


API = api(35, DescribeLogDirsRequest, "1-5", "2+", read, write, code_only(DescribeLogDirsReply))
