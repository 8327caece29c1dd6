"""DescribeTopicPartitions (75), v0 (KIP-966). Flexible; cursors are nullable structs (KIP-893).

Eligible leader replicas exist only in a replicated log. Both arrays are empty, never null, as in a
Kafka cluster with the feature switched off.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import (
    DescribeTopicPartitionsReply,
    DescribeTopicPartitionsRequest,
    TopicInfo,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> DescribeTopicPartitionsRequest:
    topics = reader.structs(Reader.string)
    limit = reader.int32()
    # The byte before a nullable struct: negative = null.
    cursor = _cursor(reader) if reader.int8() >= 0 else None
    return DescribeTopicPartitionsRequest(topics, limit, cursor)


def _cursor(reader: Reader) -> tuple[str, int]:
    name = reader.string()
    partition = reader.int32()
    reader.end()
    return name, partition


def write(writer: Writer, reply: DescribeTopicPartitionsReply) -> None:
    writer.int32(0)
    for topic in writer.structs(reply.topics):
        _write_topic(writer, topic)
    if reply.next_cursor is None:
        writer.int8(-1)
    else:
        name, partition = reply.next_cursor
        writer.int8(1)
        writer.string(name)
        writer.int32(partition)
        writer.end()


def _write_topic(writer: Writer, topic: TopicInfo) -> None:
    writer.int16(topic.error)
    writer.nullable_string(topic.name)
    writer.uuid(topic.topic_id)
    writer.boolean(topic.internal)
    for partition in writer.structs(topic.partitions):
        writer.int16(partition.error)
        writer.int32(partition.partition)
        writer.int32(partition.leader)
        writer.int32(partition.leader_epoch)
        writer.int32_array(partition.replicas)
        writer.int32_array(partition.isr)
        for _ in ("eligible leader replicas", "last known ELR", "offline replicas"):
            writer.array_length(0)
    writer.int32(topic.authorized_operations)


def failure(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, _: str | None
) -> DescribeTopicPartitionsReply:
    return DescribeTopicPartitionsReply(
        tuple(TopicInfo(name, error=code) for name in request.topics)
    )


API = api(75, DescribeTopicPartitionsRequest, "0", "0+", read, write, failure)
