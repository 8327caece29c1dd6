"""IncrementalAlterConfigs (44), v0-1. v1 is flexible."""

from __future__ import annotations

from groupd.protocol.messages.topics import (
    AlterConfig,
    AlterConfigsReply,
    AlterResource,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.wire.outcomes import alter_failure, encode_altered
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

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
    return encode_altered(reply, flexible=version >= _FLEXIBLE_FROM)


API = Api(
    44,
    "IncrementalAlterConfigs",
    0,
    1,
    _FLEXIBLE_FROM,
    IncrementalAlterConfigsRequest,
    decode,
    encode,
    alter_failure,
)
