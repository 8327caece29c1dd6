"""TxnOffsetCommit (28), v0-6. v2 adds the leader epoch, v3 is flexible and adds generation,
member id and instance id, v4 and v5 change errors and transactions only (KIP-890), v6 names topics
by id (KIP-1319).

There is no error above the partition: an error of the whole request stands on each.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    PartitionError,
    TopicErrors,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 3
_BY_ID_FROM = 6


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> TxnOffsetCommitRequest:
    with_member = reader.version >= 3
    request = TxnOffsetCommitRequest(
        transactional_id=reader.string(),
        group_id=reader.string(),
        producer_id=reader.int64(),
        producer_epoch=reader.int16(),
        generation_or_epoch=reader.int32() if with_member else -1,
        member_id=reader.string() if with_member else "",
        group_instance_id=reader.nullable_string() if with_member else None,
        topics=reader.array(_topic),
    )
    reader.end()
    return request


def _topic(reader: Reader) -> CommitTopic:
    by_id = reader.version >= _BY_ID_FROM
    name = "" if by_id else reader.string()
    topic_id = reader.uuid() if by_id else NO_TOPIC_ID
    partitions = reader.array(_partition)
    reader.end()
    return CommitTopic(name, partitions, topic_id)


def _partition(reader: Reader) -> CommitPartition:
    partition = CommitPartition(
        partition=reader.int32(),
        offset=reader.int64(),
        leader_epoch=reader.int32() if reader.version >= 2 else -1,
        metadata=reader.nullable_string(),
    )
    reader.end()
    return partition


def encode(reply: TxnOffsetCommitReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        if version >= _BY_ID_FROM:
            writer.uuid(topic.topic_id)
        else:
            writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for item in topic.partitions:
            writer.int32(item.partition)
            writer.int16(item.error)
            writer.end()
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: TxnOffsetCommitRequest, code: ErrorCode, _: str | None
) -> TxnOffsetCommitReply:
    """The error stands on every partition of the request."""
    return TxnOffsetCommitReply(
        tuple(
            TopicErrors(
                topic.name,
                tuple(PartitionError(p.partition, code) for p in topic.partitions),
                topic.topic_id,
            )
            for topic in request.topics
        )
    )


API = Api(
    28, "TxnOffsetCommit", 0, 6, _FLEXIBLE_FROM, TxnOffsetCommitRequest, decode, encode, failure
)
