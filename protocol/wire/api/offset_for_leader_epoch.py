"""OffsetForLeaderEpoch (23), v2-4. v3 adds the replica id, v4 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    EpochEndOffset,
    EpochEndTopic,
    LeaderEpochPartition,
    LeaderEpochTopic,
    OffsetForLeaderEpochReply,
    OffsetForLeaderEpochRequest,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_DEBUGGING_CONSUMER = -2
_FLEXIBLE_FROM = 4


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> OffsetForLeaderEpochRequest:
    replica_id = reader.int32() if reader.version >= 3 else _DEBUGGING_CONSUMER
    topics = reader.array(_topic)
    reader.end()
    return OffsetForLeaderEpochRequest(topics, replica_id)


def _topic(reader: Reader) -> LeaderEpochTopic:
    name = reader.string()
    partitions = reader.array(_partition)
    reader.end()
    return LeaderEpochTopic(name, partitions)


def _partition(reader: Reader) -> LeaderEpochPartition:
    partition = reader.int32()
    current_leader_epoch = reader.int32()
    leader_epoch = reader.int32()
    reader.end()
    return LeaderEpochPartition(partition, leader_epoch, current_leader_epoch)


def encode(reply: OffsetForLeaderEpochReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for item in topic.partitions:
            writer.int16(item.error)
            writer.int32(item.partition)
            writer.int32(item.leader_epoch)
            writer.int64(item.end_offset)
            writer.end()
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, _: str | None
) -> OffsetForLeaderEpochReply:
    return OffsetForLeaderEpochReply(
        tuple(
            EpochEndTopic(
                topic.name,
                tuple(EpochEndOffset(item.partition, code) for item in topic.partitions),
            )
            for topic in request.topics
        )
    )


API = Api(
    23,
    "OffsetForLeaderEpoch",
    2,
    4,
    _FLEXIBLE_FROM,
    OffsetForLeaderEpochRequest,
    decode,
    encode,
    failure,
)
