"""CreatePartitions (37), v0-3. v1 changes throttling, v3 an error code only; v2 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.topics import (
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    GrownTopic,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> CreatePartitionsRequest:
    topics = reader.structs(_topic)
    timeout_ms = reader.int32()
    validate_only = reader.boolean()
    return CreatePartitionsRequest(topics, timeout_ms, validate_only)


def _topic(reader: Reader) -> GrownTopic:
    name = reader.string()
    count = reader.int32()
    assignments = reader.nullable_structs(_assignment)
    return GrownTopic(name, count, assignments)


def _assignment(reader: Reader) -> tuple[int, ...]:
    return reader.int32_array()


def write(writer: Writer, reply: CreatePartitionsReply) -> None:
    writer.int32(0)
    for result in writer.structs(reply.results):
        writer.string(result.name)
        writer.int16(result.error)
        writer.nullable_string(result.error_message)


def failure(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsReply:
    return CreatePartitionsReply(
        tuple(CreatePartitionsResult(topic.name, code, message) for topic in request.topics)
    )


API = api(37, CreatePartitionsRequest, "0-3", "2+", read, write, failure)
