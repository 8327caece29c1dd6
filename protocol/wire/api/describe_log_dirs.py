"""DescribeLogDirs (35), v1-5. v2 is flexible, v3 adds an error of the whole, v4 the size of the
volume, v5 whether new partitions may come (KIP-1066)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import DescribeLogDirsReply, DescribeLogDirsRequest, LogDir
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeLogDirsRequest:
    topics = reader.nullable_array(_topic)
    reader.end()
    return DescribeLogDirsRequest(topics)


def _topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    name = reader.string()
    partitions = reader.int32_array()
    reader.end()
    return name, partitions


def encode(reply: DescribeLogDirsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    if version >= 3:
        writer.int16(reply.error)
    writer.array_length(len(reply.log_dirs))
    for log_dir in reply.log_dirs:
        _write_dir(writer, log_dir, version)
    writer.end()
    return writer.buffer


def _write_dir(writer: Writer, log_dir: LogDir, version: int) -> None:
    writer.int16(log_dir.error)
    writer.string(log_dir.path)
    writer.array_length(len(log_dir.topics))
    for name, partitions in log_dir.topics:
        writer.string(name)
        writer.array_length(len(partitions))
        for partition, size in partitions:
            writer.int32(partition)
            writer.int64(size)
            writer.int64(0)  # no lag: there is one replica
            writer.boolean(False)
            writer.end()
        writer.end()
    if version >= 4:
        writer.int64(log_dir.total_bytes)
        writer.int64(log_dir.usable_bytes)
    if version >= 5:
        writer.boolean(False)  # cordoned
    writer.end()


def failure(
    request: DescribeLogDirsRequest, code: ErrorCode, message: str | None
) -> DescribeLogDirsReply:
    return DescribeLogDirsReply(code)


API = Api(
    35, "DescribeLogDirs", 1, 5, _FLEXIBLE_FROM, DescribeLogDirsRequest, decode, encode, failure
)
