"""DescribeConfigs (32), v1-4.

v1 replaces the default flag by the source of a value and adds synonyms, v3 adds type and
documentation, v4 is flexible. Synonyms are never listed: the array is empty.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.messages.topics import (
    ConfigResource,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedConfigs,
)
from protocol.wire.encode import Writer
from protocol.wire.read import Reader
from protocol.wire.registry import Api


def decode(frame: bytes, offset: int, version: int) -> DescribeConfigsRequest:
    reader = Reader(frame, offset, flexible=version >= 4)
    resources = reader.array(lambda: _resource(reader))
    include_synonyms = reader.boolean()
    include_documentation = reader.boolean() if version >= 3 else False
    reader.end()
    return DescribeConfigsRequest(resources, include_synonyms, include_documentation)


def _resource(reader: Reader) -> ConfigResource:
    resource_type = reader.int8()
    name = reader.string()
    keys = reader.nullable_array(reader.string)
    reader.end()
    return ConfigResource(resource_type, name, keys)


def encode(reply: DescribeConfigsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= 4)
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
    writer.array_length(0)
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


API = Api(32, "DescribeConfigs", 1, 4, 4, DescribeConfigsRequest, decode, encode, failure)
