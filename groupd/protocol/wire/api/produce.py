"""Produce (0), v0-13.

v1 adds throttle time, v2 the log append time, v3 the transactional id, v5 the log start offset, v8
error message and record errors, v9 is flexible, v10 adds the current leader and node endpoints
(KIP-951), v11 and v12 only change error codes and transactions (KIP-890), v13 names topics by id.

This is a hot path: record batches are taken as raw bytes, in one copy. They are checked when they
are appended, and stored byte for byte.

v0-2 are older than record batches. groupd serves them because librdkafka up to 2.8 turns
compression off unless version 0 is advertised (KAFKA-18659). Older message formats in them are
refused for each partition when they are appended.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import Node
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
from groupd.protocol.schema import struct
from groupd.protocol.wire.registry import api, first_fields


def _transactional_id(reader: Reader) -> str | None:
    return reader.nullable_string() if reader.version >= 3 else None


_transactional_id_of = first_fields(_transactional_id, flexible_from=9)


def _lane(frame: bytes, offset: int, version: int) -> str:
    """Batches get their offsets in the order of arrival, so the requests of a connection may share
    a lane. Requests of different transactional ids do not share one: a request might overtake
    another one while the transaction of that is verified."""
    name = _transactional_id_of(frame, offset, version)
    return "produce" if name is None else f"produce/{name}"


def _failure(request: ProduceRequest, code: ErrorCode, message: str | None) -> ProduceReply | None:
    """The error is on every partition. With acks=0 there is no reply."""
    if request.acks == 0:
        return None

    def topic(asked: ProduceTopic) -> ProducedTopic:
        partitions = mapped(
            lambda item: ProducedPartition(item.partition, code, error_message=message),
            asked.partitions,
        )
        return ProducedTopic(asked.name, asked.topic_id, partitions)

    return ProduceReply(mapped(topic, request.topics))


# With this a client that gets NOT_LEADER_OR_FOLLOWER goes to the new leader without a metadata
# request (KIP-951).
LEADER = struct(tuple, "0:int32 1:int32")
ENDPOINT = struct(Node, "node_id:int32 host:string port:int32 rack:string?")

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
    lane=_lane,
)
