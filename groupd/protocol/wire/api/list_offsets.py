"""ListOffsets (2), v1-11.

v2 adds the isolation level and throttle time, v4 the leader epoch, v6 is flexible, v10 adds
the timeout. v7, v8, v9 and v11 only give meanings to further negative timestamps (-3 max
timestamp, -4 earliest local, -5 latest tiered, -6 earliest pending upload).
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    READ_UNCOMMITTED,
    ListedOffset,
    ListedOffsetsTopic,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> ListOffsetsRequest:
    replica_id = reader.int32()
    isolation_level = reader.int8() if reader.version >= 2 else READ_UNCOMMITTED
    topics = reader.structs(_topic)
    timeout_ms = reader.int32() if reader.version >= 10 else 0
    return ListOffsetsRequest(topics, isolation_level, replica_id, timeout_ms)


def _topic(reader: Reader) -> ListOffsetsTopic:
    name = reader.string()
    partitions = reader.structs(_partition)
    return ListOffsetsTopic(name, partitions)


def _partition(reader: Reader) -> ListOffsetsPartition:
    partition = reader.int32()
    leader_epoch = reader.int32() if reader.version >= 4 else -1
    timestamp_ms = reader.int64()
    return ListOffsetsPartition(partition, timestamp_ms, leader_epoch)


def write(writer: Writer, reply: ListOffsetsReply) -> Generator[None, None, None]:
    if writer.version >= 2:
        writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)


def _write_topic(writer: Writer, topic: ListedOffsetsTopic) -> Generator[None, None, None]:
    writer.string(topic.name)
    yield from writer.structs_in_steps(topic.partitions, _write_partition)


def _write_partition(writer: Writer, item: ListedOffset) -> None:
    writer.int32(item.partition)
    writer.int16(item.error)
    writer.int64(item.timestamp_ms)
    writer.int64(item.offset)
    if writer.version >= 4:
        writer.int32(item.leader_epoch)


def failure(request: ListOffsetsRequest, code: ErrorCode, _: str | None) -> ListOffsetsReply:
    def topic(asked: ListOffsetsTopic) -> ListedOffsetsTopic:
        partitions = mapped(lambda item: ListedOffset(item.partition, code), asked.partitions)
        return ListedOffsetsTopic(asked.name, partitions)

    return ListOffsetsReply(mapped(topic, request.topics))


API = api(2, ListOffsetsRequest, "1-11", "6+", read, write, failure)
