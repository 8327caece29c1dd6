"""AlterConfigs (33), v0-2. v1 changes throttling only, v2 is flexible.

A resource is replaced: what is not named goes back to its default.
"""

from __future__ import annotations

from groupd.protocol.messages.topics import (
    AlterConfig,
    AlterConfigsReply,
    AlterConfigsRequest,
    AlterResource,
)
from groupd.protocol.wire.outcomes import alter_failure, encode_altered
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2
_SET = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> AlterConfigsRequest:
    resources = reader.array(_resource)
    validate_only = reader.boolean()
    reader.end()
    return AlterConfigsRequest(resources, validate_only)


def _resource(reader: Reader) -> AlterResource:
    resource_type = reader.int8()
    name = reader.string()
    configs = reader.array(_config)
    reader.end()
    return AlterResource(resource_type, name, configs, replace=True)


def _config(reader: Reader) -> AlterConfig:
    name = reader.string()
    value = reader.nullable_string()
    reader.end()
    return AlterConfig(name, _SET, value)


def encode(reply: AlterConfigsReply, version: int) -> bytearray:
    return encode_altered(reply, flexible=version >= _FLEXIBLE_FROM)


API = Api(
    33, "AlterConfigs", 0, 2, _FLEXIBLE_FROM, AlterConfigsRequest, decode, encode, alter_failure
)
