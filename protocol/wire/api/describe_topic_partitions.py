"""DescribeTopicPartitions (75), v0 (KIP-966). Flexible; cursors are nullable structs (KIP-893).

Eligible leader replicas need a replicated log: both arrays are empty, as in a Kafka cluster
with the feature switched off, never null.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import (
    DescribeTopicPartitionsReply,
    DescribeTopicPartitionsRequest,
    TopicInfo,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeTopicPartitionsRequest:
    topics = reader.array(_topic)
    limit = reader.int32()
    # The byte before a nullable struct: negative = null.
    cursor = _cursor(reader) if reader.int8() >= 0 else None
    reader.end()
    return DescribeTopicPartitionsRequest(topics, limit, cursor)


def _topic(reader: Reader) -> str:
    name = reader.string()
    reader.end()
    return name


def _cursor(reader: Reader) -> tuple[str, int]:
    name = reader.string()
    partition = reader.int32()
    reader.end()
    return name, partition


def encode(reply: DescribeTopicPartitionsReply, _: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.array(reply.topics, lambda topic: _write_topic(writer, topic))
    if reply.next_cursor is None:
        writer.int8(-1)
    else:
        name, partition = reply.next_cursor
        writer.int8(1)
        writer.string(name)
        writer.int32(partition)
        writer.end()
    writer.end()
    return writer.buffer


def _write_topic(writer: Writer, topic: TopicInfo) -> None:
    writer.int16(topic.error)
    writer.nullable_string(topic.name)
    writer.uuid(topic.topic_id)
    writer.boolean(topic.internal)
    writer.array_length(len(topic.partitions))
    for partition in topic.partitions:
        writer.int16(partition.error)
        writer.int32(partition.partition)
        writer.int32(partition.leader)
        writer.int32(partition.leader_epoch)
        writer.int32_array(partition.replicas)
        writer.int32_array(partition.isr)
        for _ in ("eligible leader replicas", "last known ELR", "offline replicas"):
            writer.array_length(0)
        writer.end()
    writer.int32(topic.authorized_operations)
    writer.end()


def failure(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, _: str | None
) -> DescribeTopicPartitionsReply:
    return DescribeTopicPartitionsReply(
        tuple(TopicInfo(name, error=code) for name in request.topics)
    )


API = Api(
    75,
    "DescribeTopicPartitions",
    0,
    0,
    _FLEXIBLE_FROM,
    DescribeTopicPartitionsRequest,
    decode,
    encode,
    failure,
)
