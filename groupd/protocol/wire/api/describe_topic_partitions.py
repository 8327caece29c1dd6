"""DescribeTopicPartitions (75), v0 (KIP-966). Flexible; cursors are nullable structs (KIP-893).

Eligible leader replicas exist only in a replicated log. Both arrays are empty, never null, as in a
Kafka cluster with the feature switched off.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import (
    DescribeTopicPartitionsReply,
    DescribeTopicPartitionsRequest,
    PartitionRun,
    TopicInfo,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


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


def write(writer: Writer, reply: DescribeTopicPartitionsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)
    if reply.next_cursor is None:
        writer.int8(-1)
    else:
        name, partition = reply.next_cursor
        writer.int8(1)
        writer.string(name)
        writer.int32(partition)
        writer.end()


def _write_topic(writer: Writer, topic: TopicInfo) -> Generator[None, None, None]:
    writer.int16(topic.error)
    writer.nullable_string(topic.name)
    writer.uuid(topic.topic_id)
    writer.boolean(topic.internal)
    writer.array_length(topic.partition_count)
    for run in topic.partitions:
        for partition in range(run.first, run.end):
            if writer.due():
                yield
            _write_partition(writer, run, partition)
    writer.int32(topic.authorized_operations)


def _write_partition(writer: Writer, run: PartitionRun, partition: int) -> None:
    writer.int16(run.error)
    writer.int32(partition)
    writer.int32(run.leader)
    writer.int32(run.leader_epoch)
    writer.int32_array(run.replicas)
    writer.int32_array(run.isr)
    for _ in ("eligible leader replicas", "last known ELR"):
        writer.array_length(0)
    writer.int32_array(run.offline)
    writer.end()


def failure(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, _: str | None
) -> DescribeTopicPartitionsReply:
    return DescribeTopicPartitionsReply(
        mapped(lambda name: TopicInfo(name, error=code), request.topics)
    )


API = api(75, DescribeTopicPartitionsRequest, "0", "0+", read, write, failure)
