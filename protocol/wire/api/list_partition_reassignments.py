"""ListPartitionReassignments (46), v0. Always flexible. The list is empty: nothing ever moves."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import (
    ListPartitionReassignmentsReply,
    ListPartitionReassignmentsRequest,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ListPartitionReassignmentsRequest:
    timeout_ms = reader.int32()
    topics = reader.nullable_array(_topic)
    reader.end()
    return ListPartitionReassignmentsRequest(topics, timeout_ms)


def _topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    name = reader.string()
    partitions = reader.int32_array()
    reader.end()
    return name, partitions


def encode(reply: ListPartitionReassignmentsReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    writer.array_length(0)
    writer.end()
    return writer.buffer


def failure(
    request: ListPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> ListPartitionReassignmentsReply:
    return ListPartitionReassignmentsReply(code, message)


API = Api(
    46,
    "ListPartitionReassignments",
    0,
    0,
    _FLEXIBLE_FROM,
    ListPartitionReassignmentsRequest,
    decode,
    encode,
    failure,
)
