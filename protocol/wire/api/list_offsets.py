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
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 6


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ListOffsetsRequest:
    replica_id = reader.int32()
    isolation_level = reader.int8() if reader.version >= 2 else READ_UNCOMMITTED
    topics = reader.array(_topic)
    timeout_ms = reader.int32() if reader.version >= 10 else 0
    reader.end()
    return ListOffsetsRequest(topics, isolation_level, replica_id, timeout_ms)


def _topic(reader: Reader) -> ListOffsetsTopic:
    name = reader.string()
    partitions = reader.array(_partition)
    reader.end()
    return ListOffsetsTopic(name, partitions)


def _partition(reader: Reader) -> ListOffsetsPartition:
    partition = reader.int32()
    leader_epoch = reader.int32() if reader.version >= 4 else -1
    timestamp_ms = reader.int64()
    reader.end()
    return ListOffsetsPartition(partition, timestamp_ms, leader_epoch)


def encode(reply: ListOffsetsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 2:
        writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for item in topic.partitions:
            writer.int32(item.partition)
            writer.int16(item.error)
            writer.int64(item.timestamp_ms)
            writer.int64(item.offset)
            if version >= 4:
                writer.int32(item.leader_epoch)
            writer.end()
        writer.end()
    writer.end()
    return writer.buffer


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


API = Api(2, "ListOffsets", 1, 11, _FLEXIBLE_FROM, ListOffsetsRequest, decode, encode, failure)
