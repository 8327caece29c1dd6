"""IncrementalAlterConfigs (44), v0-1. v1 is flexible."""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.topics import (
    AlterConfig,
    AlterConfigsReply,
    AlteredResource,
    AlterResource,
    IncrementalAlterConfigsRequest,
)
from protocol.wire.encode import Writer
from protocol.wire.reader import Reader, decoder
from protocol.wire.registry import Api

_FLEXIBLE_FROM = 1


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> IncrementalAlterConfigsRequest:
    resources = reader.array(_resource)
    validate_only = reader.boolean()
    reader.end()
    return IncrementalAlterConfigsRequest(resources, validate_only)


def _resource(reader: Reader) -> AlterResource:
    resource_type = reader.int8()
    name = reader.string()
    configs = reader.array(_config)
    reader.end()
    return AlterResource(resource_type, name, configs)


def _config(reader: Reader) -> AlterConfig:
    name = reader.string()
    operation = reader.int8()
    value = reader.nullable_string()
    reader.end()
    return AlterConfig(name, operation, value)


def encode(reply: AlterConfigsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
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
) -> AlterConfigsReply:
    return AlterConfigsReply(
        tuple(
            AlteredResource(resource.resource_type, resource.name, code, message)
            for resource in request.resources
        )
    )


API = Api(
    44,
    "IncrementalAlterConfigs",
    0,
    1,
    _FLEXIBLE_FROM,
    IncrementalAlterConfigsRequest,
    decode,
    encode,
    failure,
)
