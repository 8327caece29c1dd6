"""OffsetForLeaderEpoch (23), v2-4. v3 adds the replica id, v4 is flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    EpochEndOffset,
    EpochEndTopic,
    LeaderEpochPartition,
    LeaderEpochTopic,
    OffsetForLeaderEpochReply,
    OffsetForLeaderEpochRequest,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer

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


def write(writer: Writer, reply: OffsetForLeaderEpochReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)


def _write_topic(writer: Writer, topic: EpochEndTopic) -> Generator[None, None, None]:
    writer.string(topic.name)
    yield from writer.structs_in_steps(topic.partitions, _write_partition)


def _write_partition(writer: Writer, item: EpochEndOffset) -> None:
    writer.int16(item.error)
    writer.int32(item.partition)
    writer.int32(item.leader_epoch)
    writer.int64(item.end_offset)


def failure(
    request: OffsetForLeaderEpochRequest, code: ErrorCode, _: str | None
) -> OffsetForLeaderEpochReply:
    def topic(asked: LeaderEpochTopic) -> EpochEndTopic:
        partitions = mapped(lambda item: EpochEndOffset(item.partition, code), asked.partitions)
        return EpochEndTopic(asked.name, partitions)

    return OffsetForLeaderEpochReply(mapped(topic, request.topics))


API = api(23, OffsetForLeaderEpochRequest, "2-4", "4+", read, write, failure)
