"""ListOffsets (2), v1-11.

v2 adds the isolation level and throttle time, v4 the leader epoch, v6 is flexible, v10 adds
the timeout. v7, v8, v9 and v11 only give meanings to further negative timestamps (-3 max
timestamp, -4 earliest local, -5 latest tiered, -6 earliest pending upload).
"""

from __future__ import annotations

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
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


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


def write(writer: Writer, reply: ListOffsetsReply) -> None:
    if writer.version >= 2:
        writer.int32(0)
    for topic in writer.structs(reply.topics):
        writer.string(topic.name)
        for item in writer.structs(topic.partitions):
            writer.int32(item.partition)
            writer.int16(item.error)
            writer.int64(item.timestamp_ms)
            writer.int64(item.offset)
            if writer.version >= 4:
                writer.int32(item.leader_epoch)


def failure(request: ListOffsetsRequest, code: ErrorCode, _: str | None) -> ListOffsetsReply:
    return ListOffsetsReply(
        tuple(
            ListedOffsetsTopic(
                topic.name,
                tuple(ListedOffset(item.partition, code) for item in topic.partitions),
            )
            for topic in request.topics
        )
    )


API = api(2, ListOffsetsRequest, "1-11", "6+", read, write, failure)
