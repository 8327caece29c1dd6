"""Produce (0), v3-13.

v5 adds the log start offset to the reply, v8 error message and record errors, v9 is flexible,
v10 adds the current leader and node endpoints (KIP-951), v11 and v12 change error codes and
transactions only (KIP-890), v13 names topics by id.

A hot path, decoded by hand: kio parses and validates every record batch, while the broker
checks batches itself and must store them byte for byte.

librdkafka decides by the advertised minimum whether a broker knows newer compression types, so
ApiVersions must advertise Produce from version 0 although 0-2 are refused (KAFKA-18659).
"""

from __future__ import annotations

from struct import Struct

from protocol.errors import ErrorCode
from protocol.messages import NO_TOPIC_ID
from protocol.messages.data import (
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceReply,
    ProduceRequest,
    ProduceTopic,
)
from protocol.wire.encode import Writer
from protocol.wire.leaders import current_leader, node_endpoints
from protocol.wire.read import Reader
from protocol.wire.registry import Api

_PARTITION = Struct(">ihqq")
"""partition, error, base offset, log append time"""


def decode(frame: bytes, offset: int, version: int) -> ProduceRequest:
    reader = Reader(frame, offset, flexible=version >= 9)
    transactional_id = reader.nullable_string()
    acks = reader.int16()
    timeout_ms = reader.int32()
    topics = reader.array(lambda: _topic(reader, version))
    reader.end()
    return ProduceRequest(topics, acks, timeout_ms, transactional_id)


def _topic(reader: Reader, version: int) -> ProduceTopic:
    name = reader.string() if version <= 12 else ""
    topic_id = reader.uuid() if version >= 13 else NO_TOPIC_ID
    partitions = reader.array(lambda: _partition(reader))
    reader.end()
    return ProduceTopic(name, topic_id, partitions)


def _partition(reader: Reader) -> ProducePartition:
    partition = reader.int32()
    records = reader.nullable_bytes()
    reader.end()
    return ProducePartition(partition, records)


def encode(reply: ProduceReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= 9)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        if version >= 13:
            writer.uuid(topic.topic_id)
        else:
            writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for partition in topic.partitions:
            _write_partition(writer, partition, version)
        writer.end()
    writer.int32(0)
    if version >= 10 and reply.node_endpoints:
        writer.tagged([(0, node_endpoints(reply.node_endpoints))])
    else:
        writer.end()
    return writer.buffer


def _write_partition(writer: Writer, partition: ProducedPartition, version: int) -> None:
    writer.buffer += _PARTITION.pack(
        partition.partition,
        partition.error,
        partition.base_offset,
        partition.log_append_time_ms,
    )
    if version >= 5:
        writer.int64(partition.log_start_offset)
    if version >= 8:
        writer.array_length(0)
        writer.nullable_string(partition.error_message)
    if version >= 10 and partition.current_leader is not None:
        writer.tagged([(0, current_leader(partition.current_leader))])
    else:
        writer.end()


def failure(request: ProduceRequest, code: ErrorCode, message: str | None) -> ProduceReply:
    return ProduceReply(
        tuple(
            ProducedTopic(
                topic.name,
                topic.topic_id,
                tuple(
                    ProducedPartition(item.partition, code, error_message=message)
                    for item in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


API = Api(0, "Produce", 3, 13, 9, ProduceRequest, decode, encode, failure)
