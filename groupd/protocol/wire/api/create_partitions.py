"""CreatePartitions (37), v0-3. v1 changes throttling, v3 an error code only; v2 is flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.topics import (
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    GrownTopic,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


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


def write(writer: Writer, reply: CreatePartitionsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.structs_in_steps(reply.results, _write_result)


def _write_result(writer: Writer, result: CreatePartitionsResult) -> None:
    writer.string(result.name)
    writer.int16(result.error)
    writer.nullable_string(result.error_message)


def failure(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None
) -> CreatePartitionsReply:
    return CreatePartitionsReply(
        mapped(lambda topic: CreatePartitionsResult(topic.name, code, message), request.topics)
    )


API = api(37, CreatePartitionsRequest, "0-3", "2+", read, write, failure)
