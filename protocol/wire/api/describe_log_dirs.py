"""DescribeLogDirs (35), v1-5. v2 is flexible, v3 adds an error of the whole request, v4 the size of
the volume, v5 whether new partitions may be placed there (KIP-1066)."""

from __future__ import annotations

from groupd.protocol.messages.replicas import DescribeLogDirsReply, DescribeLogDirsRequest, LogDir
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.outcomes import read_named_partitions
from groupd.protocol.wire.registry import api, code_only


def read(reader: Reader) -> DescribeLogDirsRequest:
    topics = reader.nullable_structs(read_named_partitions)
    return DescribeLogDirsRequest(topics)


def write(writer: Writer, reply: DescribeLogDirsReply) -> None:
    writer.int32(0)
    if writer.version >= 3:
        writer.int16(reply.error)
    for log_dir in writer.structs(reply.log_dirs):
        _write_dir(writer, log_dir)


def _write_dir(writer: Writer, log_dir: LogDir) -> None:
    writer.int16(log_dir.error)
    writer.string(log_dir.path)
    for name, partitions in writer.structs(log_dir.topics):
        writer.string(name)
        for partition, size in writer.structs(partitions):
            writer.int32(partition)
            writer.int64(size)
            writer.int64(0)  # no lag: there is one replica
            writer.boolean(False)
    if writer.version >= 4:
        writer.int64(log_dir.total_bytes)
        writer.int64(log_dir.usable_bytes)
    if writer.version >= 5:
        writer.boolean(False)  # cordoned


API = api(35, DescribeLogDirsRequest, "1-5", "2+", read, write, code_only(DescribeLogDirsReply))
