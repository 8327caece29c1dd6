"""CreatePartitions (37), v0-3. v1 changes throttling, v3 an error code only; v2 is flexible."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.topics import (
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    GrownTopic,
)
from protocol.wire.encode import Writer
from protocol.wire.read import Reader
from protocol.wire.registry import Api


def decode(frame: bytes, offset: int, version: int) -> CreatePartitionsRequest:
    reader = Reader(frame, offset, flexible=version >= 2)
    topics = reader.array(lambda: _topic(reader))
    timeout_ms = reader.int32()
    validate_only = reader.boolean()
    reader.end()
    return CreatePartitionsRequest(topics, timeout_ms, validate_only)


def _topic(reader: Reader) -> GrownTopic:
    name = reader.string()
    count = reader.int32()
    assignments = reader.nullable_array(lambda: _assignment(reader))
    reader.end()
    return GrownTopic(name, count, assignments)


def _assignment(reader: Reader) -> tuple[int, ...]:
    node_ids = reader.int32_array()
    reader.end()
    return node_ids


def encode(reply: CreatePartitionsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= 2)
    writer.int32(0)
    writer.array_length(len(reply.results))
    for result in reply.results:
        writer.string(result.name)
        writer.int16(result.error)
        writer.nullable_string(result.error_message)
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsReply:
    return CreatePartitionsReply(
        tuple(CreatePartitionsResult(topic.name, code, message) for topic in request.topics)
    )


API = Api(37, "CreatePartitions", 0, 3, 2, CreatePartitionsRequest, decode, encode, failure)
