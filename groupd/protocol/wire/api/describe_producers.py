"""DescribeProducers (61), v0: who writes to a partition, and whose transactions are open there."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.producers import (
    ActiveProducer,
    DescribedPartition,
    DescribedProducersTopic,
    DescribeProducersReply,
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeProducersRequest:
    topics = reader.structs(_topic)
    return DescribeProducersRequest(topics)


def _topic(reader: Reader) -> DescribeProducersTopic:
    name = reader.string()
    partitions = reader.int32_array()
    return DescribeProducersTopic(name, partitions)


def write(writer: Writer, reply: DescribeProducersReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)


def _write_topic(writer: Writer, topic: DescribedProducersTopic) -> Generator[None, None, None]:
    writer.string(topic.name)
    yield from writer.long_structs_in_steps(topic.partitions, _write_partition)


def _write_partition(writer: Writer, partition: DescribedPartition) -> Generator[None, None, None]:
    writer.int32(partition.partition)
    writer.int16(partition.error)
    writer.nullable_string(partition.error_message)
    yield from writer.structs_in_steps(partition.producers, _write_producer)


def _write_producer(writer: Writer, producer: ActiveProducer) -> None:
    writer.int64(producer.producer_id)
    writer.int32(producer.producer_epoch)
    writer.int32(producer.last_sequence)
    writer.int64(producer.last_timestamp_ms)
    writer.int32(producer.coordinator_epoch)
    writer.int64(producer.transaction_offset)


def failure(
    request: DescribeProducersRequest, code: ErrorCode, message: str | None
) -> DescribeProducersReply:
    def topic(asked: DescribeProducersTopic) -> DescribedProducersTopic:
        partitions = mapped(lambda item: DescribedPartition(item, code, message), asked.partitions)
        return DescribedProducersTopic(asked.name, partitions)

    return DescribeProducersReply(mapped(topic, request.topics))


API = api(61, DescribeProducersRequest, "0", "0+", read, write, failure)
