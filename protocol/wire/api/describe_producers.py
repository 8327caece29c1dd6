"""DescribeProducers (61), v0: who writes to a partition, and whose transactions hang there."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.producers import (
    DescribedPartition,
    DescribedProducersTopic,
    DescribeProducersReply,
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeProducersRequest:
    topics = reader.array(_topic)
    reader.end()
    return DescribeProducersRequest(topics)


def _topic(reader: Reader) -> DescribeProducersTopic:
    name = reader.string()
    partitions = reader.int32_array()
    reader.end()
    return DescribeProducersTopic(name, partitions)


def encode(reply: DescribeProducersReply, _: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for partition in topic.partitions:
            _write_partition(writer, partition)
        writer.end()
    writer.end()
    return writer.buffer


def _write_partition(writer: Writer, partition: DescribedPartition) -> None:
    writer.int32(partition.partition)
    writer.int16(partition.error)
    writer.nullable_string(partition.error_message)
    writer.array_length(len(partition.producers))
    for producer in partition.producers:
        writer.int64(producer.producer_id)
        writer.int32(producer.producer_epoch)
        writer.int32(producer.last_sequence)
        writer.int64(producer.last_timestamp_ms)
        writer.int32(producer.coordinator_epoch)
        writer.int64(producer.transaction_offset)
        writer.end()
    writer.end()


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


API = Api(
    61, "DescribeProducers", 0, 0, _FLEXIBLE_FROM, DescribeProducersRequest, decode, encode, failure
)
