"""DescribeProducers (61), v0: who writes to a partition, and whose transactions are open there."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.producers import (
    DescribedPartition,
    DescribedProducersTopic,
    DescribeProducersReply,
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> DescribeProducersRequest:
    topics = reader.structs(_topic)
    return DescribeProducersRequest(topics)


def _topic(reader: Reader) -> DescribeProducersTopic:
    name = reader.string()
    partitions = reader.int32_array()
    return DescribeProducersTopic(name, partitions)


def write(writer: Writer, reply: DescribeProducersReply) -> None:
    writer.int32(0)
    for topic in writer.structs(reply.topics):
        writer.string(topic.name)
        for partition in writer.structs(topic.partitions):
            _write_partition(writer, partition)


def _write_partition(writer: Writer, partition: DescribedPartition) -> None:
    writer.int32(partition.partition)
    writer.int16(partition.error)
    writer.nullable_string(partition.error_message)
    for producer in writer.structs(partition.producers):
        writer.int64(producer.producer_id)
        writer.int32(producer.producer_epoch)
        writer.int32(producer.last_sequence)
        writer.int64(producer.last_timestamp_ms)
        writer.int32(producer.coordinator_epoch)
        writer.int64(producer.transaction_offset)


def failure(
    request: DescribeProducersRequest, code: ErrorCode, message: str | None
) -> DescribeProducersReply:
    return DescribeProducersReply(
        tuple(
            DescribedProducersTopic(
                topic.name,
                tuple(
                    DescribedPartition(partition, code, message) for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


API = api(61, DescribeProducersRequest, "0", "0+", read, write, failure)
