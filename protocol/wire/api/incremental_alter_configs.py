"""IncrementalAlterConfigs (44), v0-1. v1 is flexible."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.topics import (
    AlterConfig,
    AlteredResource,
    AlterResource,
    IncrementalAlterConfigsReply,
    IncrementalAlterConfigsRequest,
)
from protocol.wire.encode import Writer
from protocol.wire.read import Reader
from protocol.wire.registry import Api


def decode(frame: bytes, offset: int, version: int) -> IncrementalAlterConfigsRequest:
    reader = Reader(frame, offset, flexible=version >= 1)
    resources = reader.array(lambda: _resource(reader))
    validate_only = reader.boolean()
    reader.end()
    return IncrementalAlterConfigsRequest(resources, validate_only)


def _resource(reader: Reader) -> AlterResource:
    resource_type = reader.int8()
    name = reader.string()
    configs = reader.array(lambda: _config(reader))
    reader.end()
    return AlterResource(resource_type, name, configs)


def _config(reader: Reader) -> AlterConfig:
    name = reader.string()
    operation = reader.int8()
    value = reader.nullable_string()
    reader.end()
    return AlterConfig(name, operation, value)


def encode(reply: IncrementalAlterConfigsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= 1)
    writer.int32(0)
    writer.array_length(len(reply.results))
    for result in reply.results:
        writer.int16(result.error)
        writer.nullable_string(result.error_message)
        writer.int8(result.resource_type)
        writer.string(result.name)
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsReply:
    return IncrementalAlterConfigsReply(
        tuple(
            AlteredResource(resource.resource_type, resource.name, code, message)
            for resource in request.resources
        )
    )


API = Api(
    44, "IncrementalAlterConfigs", 0, 1, 1, IncrementalAlterConfigsRequest, decode, encode, failure
)
