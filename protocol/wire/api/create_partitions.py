"""CreatePartitions (37), v0-3. v1 changes throttling, v3 an error code only; v2 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.topics import (
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    GrownTopic,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> CreatePartitionsRequest:
    topics = reader.array(_topic)
    timeout_ms = reader.int32()
    validate_only = reader.boolean()
    reader.end()
    return CreatePartitionsRequest(topics, timeout_ms, validate_only)


def _topic(reader: Reader) -> GrownTopic:
    name = reader.string()
    count = reader.int32()
    assignments = reader.nullable_array(_assignment)
    reader.end()
    return GrownTopic(name, count, assignments)


def _assignment(reader: Reader) -> tuple[int, ...]:
    node_ids = reader.int32_array()
    reader.end()
    return node_ids


def encode(reply: CreatePartitionsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
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


API = Api(
    37, "CreatePartitions", 0, 3, _FLEXIBLE_FROM, CreatePartitionsRequest, decode, encode, failure
)
