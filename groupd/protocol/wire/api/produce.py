"""Produce (0), v0-13.

v1 adds throttle time, v2 the log append time, v3 the transactional id, v5 the log start offset, v8
error message and record errors, v9 is flexible, v10 adds the current leader and node endpoints
(KIP-951), v11 and v12 change error codes and transactions only (KIP-890), v13 names topics by id.

This is a hot path: record batches are taken as raw bytes, in one copy. They are checked when they
are appended, and stored byte for byte.

v0-2 are older than record batches. They are served because librdkafka up to 2.8 turns compression
off unless version 0 is advertised (KAFKA-18659). Older message formats in them are refused for each
partition, when they are appended.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.data import (
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceReply,
    ProduceRequest,
    ProduceTopic,
    RecordError,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.leaders import ENDPOINT, LEADER, current_leader, node_endpoints
from groupd.protocol.wire.registry import api, decoder
from groupd.protocol.wire.schema import struct
from groupd.protocol.writer import Writer

# Partition, error, base offset.
_PARTITION = Struct(">ihq")


def _transactional_id(reader: Reader) -> str | None:
    return reader.nullable_string() if reader.version >= 3 else None


_transactional_id_of = decoder(_transactional_id, flexible_from=9, whole=False)
"""Called with (frame, offset, version); gives the transactional id without decoding what follows
it."""


def _lane(frame: bytes, offset: int, version: int) -> str:
    """Batches get their offsets in the order of arrival, so requests may share a lane. But not with
    those of another transactional id, which could overtake while a transaction is verified."""
    name = _transactional_id_of(frame, offset, version)
    return "produce" if name is None else f"produce/{name}"


def _read(reader: Reader) -> ProduceRequest:
    transactional_id = _transactional_id(reader)
    acks = reader.int16()
    timeout_ms = reader.int32()
    topics = reader.structs(_topic)
    return ProduceRequest(topics, acks, timeout_ms, transactional_id)


def _topic(reader: Reader) -> ProduceTopic:
    name = reader.string() if reader.version <= 12 else ""
    topic_id = reader.uuid() if reader.version >= 13 else NO_TOPIC_ID
    partitions = reader.structs(_partition)
    return ProduceTopic(name, topic_id, partitions)


def _partition(reader: Reader) -> ProducePartition:
    partition = reader.int32()
    records = reader.nullable_bytes()
    return ProducePartition(partition, records)


def _write(writer: Writer, reply: ProduceReply) -> Generator[None, None, None]:
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)
    if writer.version >= 1:
        writer.throttle_time()
    if writer.version >= 10 and reply.node_endpoints:
        writer.tagged_field(0, node_endpoints(reply.node_endpoints))


def _write_topic(writer: Writer, topic: ProducedTopic) -> Generator[None, None, None]:
    if writer.version >= 13:
        writer.uuid(topic.topic_id)
    else:
        writer.string(topic.name)
    yield from writer.long_structs_in_steps(topic.partitions, _write_partition)


def _write_partition(writer: Writer, partition: ProducedPartition) -> Generator[None, None, None]:
    writer.buffer += _PARTITION.pack(
        partition.partition,
        partition.error,
        partition.base_offset,
    )
    if writer.version >= 2:
        writer.int64(partition.log_append_time_ms)
    if writer.version >= 5:
        writer.int64(partition.log_start_offset)
    if writer.version >= 8:
        yield from writer.structs_in_steps(partition.record_errors, _write_error)
        writer.nullable_string(partition.error_message)
    if writer.version >= 10 and partition.current_leader is not None:
        writer.tagged_field(0, current_leader(partition.current_leader))


def _write_error(writer: Writer, error: RecordError) -> None:
    writer.int32(error.index)
    writer.nullable_string(error.message)


def _failure(request: ProduceRequest, code: ErrorCode, message: str | None) -> ProduceReply | None:
    """The error on every partition. With acks=0 there is no reply."""
    if request.acks == 0:
        return None

    def topic(asked: ProduceTopic) -> ProducedTopic:
        partitions = mapped(
            lambda item: ProducedPartition(item.partition, code, error_message=message),
            asked.partitions,
        )
        return ProducedTopic(asked.name, asked.topic_id, partitions)

    return ProduceReply(mapped(topic, request.topics))


PRODUCE = api(
    0,
    "0-13",
    "9+",
    struct(
        ProduceRequest,
        "transactional_id:string?@3+ acks:int16 timeout_ms:int32 topics:[]topic",
        topic=struct(
            ProduceTopic,
            "name:string@0-12 topic_id:uuid@13+ partitions:[]partition",
            partition=struct(ProducePartition, "partition:int32 records:bytes?"),
        ),
    ),
    struct(
        ProduceReply,
        "topics:[]topic throttle@1+ node_endpoints:[]node@10+#0",
        topic=struct(
            ProducedTopic,
            "name:string@0-12 topic_id:uuid@13+ partitions:[]partition",
            partition=struct(
                ProducedPartition,
                "partition:int32 error:error base_offset:int64 log_append_time_ms:int64@2+ "
                "log_start_offset:int64@5+ record_errors:[]error@8+ error_message:string?@8+ "
                "current_leader:leader@10+#0",
                error=struct(RecordError, "index:int32 message:string?"),
                leader=LEADER,
            ),
        ),
        node=ENDPOINT,
    ),
    _failure,
    read=_read,
    write=_write,
    lane=_lane,
)
