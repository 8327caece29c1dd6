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
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api

_DEBUGGING_CONSUMER = -2


def read(reader: Reader) -> OffsetForLeaderEpochRequest:
    replica_id = reader.int32() if reader.version >= 3 else _DEBUGGING_CONSUMER
    topics = reader.structs(_topic)
    return OffsetForLeaderEpochRequest(topics, replica_id)


def _topic(reader: Reader) -> LeaderEpochTopic:
    name = reader.string()
    partitions = reader.structs(_partition)
    return LeaderEpochTopic(name, partitions)


def _partition(reader: Reader) -> LeaderEpochPartition:
    partition = reader.int32()
    current_leader_epoch = reader.int32()
    leader_epoch = reader.int32()
    return LeaderEpochPartition(partition, leader_epoch, current_leader_epoch)


def write(writer: Writer, reply: OffsetForLeaderEpochReply) -> None:
    writer.int32(0)
    for topic in writer.structs(reply.topics):
        writer.string(topic.name)
        for item in writer.structs(topic.partitions):
            writer.int16(item.error)
            writer.int32(item.partition)
            writer.int32(item.leader_epoch)
            writer.int64(item.end_offset)


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


API = api(23, OffsetForLeaderEpochRequest, "2-4", "4+", read, write, failure)
