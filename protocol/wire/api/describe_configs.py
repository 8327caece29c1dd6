"""DescribeConfigs (32), v1-4.

v1 replaces the default flag by the source of a value and adds synonyms, v3 adds type and
documentation, v4 is flexible. Whether synonyms were asked for is the handler's matter.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.topics import (
    ConfigResource,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedConfigs,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 4


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeConfigsRequest:
    resources = reader.array(_resource)
    include_synonyms = reader.boolean()
    include_documentation = reader.version >= 3 and reader.boolean()
    reader.end()
    return DescribeConfigsRequest(resources, include_synonyms, include_documentation)


def _resource(reader: Reader) -> ConfigResource:
    resource_type = reader.int8()
    name = reader.string()
    keys = reader.nullable_array(Reader.string)
    reader.end()
    return ConfigResource(resource_type, name, keys)


def encode(reply: DescribeConfigsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.results))
    for result in reply.results:
        writer.int16(result.error)
        writer.nullable_string(result.error_message)
        writer.int8(result.resource_type)
        writer.string(result.name)
        writer.array_length(len(result.configs))
        for config in result.configs:
            _write_config(writer, config, version)
        writer.end()
    writer.end()
    return writer.buffer


def _write_config(writer: Writer, config: ConfigValue, version: int) -> None:
    writer.string(config.name)
    writer.nullable_string(config.value)
    writer.boolean(config.read_only)
    writer.int8(config.source)
    writer.boolean(config.sensitive)
    writer.array_length(len(config.synonyms))
    for synonym in config.synonyms:
        writer.string(synonym.name)
        writer.nullable_string(synonym.value)
        writer.int8(synonym.source)
        writer.end()
    if version >= 3:
        writer.int8(config.config_type)
        writer.nullable_string(config.documentation)
    writer.end()


def failure(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsReply:
    return DescribeConfigsReply(
        tuple(
            DescribedConfigs(resource.resource_type, resource.name, code, message)
            for resource in request.resources
        )
    )


API = Api(
    32, "DescribeConfigs", 1, 4, _FLEXIBLE_FROM, DescribeConfigsRequest, decode, encode, failure
)
