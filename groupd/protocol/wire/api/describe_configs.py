"""DescribeConfigs (32), v1-4.

v1 replaces the default flag by the source of a value and adds synonyms, v3 adds type and
documentation, v4 is flexible. The handler decides whether to give synonyms.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.topics import (
    ConfigResource,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedConfigs,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeConfigsRequest:
    resources = reader.structs(_resource)
    include_synonyms = reader.boolean()
    include_documentation = reader.version >= 3 and reader.boolean()
    return DescribeConfigsRequest(resources, include_synonyms, include_documentation)


def _resource(reader: Reader) -> ConfigResource:
    resource_type = reader.int8()
    name = reader.string()
    keys = reader.nullable_array(Reader.string)
    return ConfigResource(resource_type, name, keys)


def write(writer: Writer, reply: DescribeConfigsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.results, _write_resource)


def _write_resource(writer: Writer, result: DescribedConfigs) -> Generator[None, None, None]:
    writer.int16(result.error)
    writer.nullable_string(result.error_message)
    writer.int8(result.resource_type)
    writer.string(result.name)
    yield from writer.structs_in_steps(result.configs, _write_config)


def _write_config(writer: Writer, config: ConfigValue) -> None:
    writer.string(config.name)
    writer.nullable_string(config.value)
    writer.boolean(config.read_only)
    writer.int8(config.source)
    writer.boolean(config.sensitive)
    for synonym in writer.structs(config.synonyms):
        writer.string(synonym.name)
        writer.nullable_string(synonym.value)
        writer.int8(synonym.source)
    if writer.version >= 3:
        writer.int8(config.config_type)
        writer.nullable_string(config.documentation)


def failure(
    request: DescribeConfigsRequest, code: ErrorCode, message: str | None
) -> DescribeConfigsReply:
    def failed(asked: ConfigResource) -> DescribedConfigs:
        return DescribedConfigs(asked.resource_type, asked.name, code, message)

    return DescribeConfigsReply(mapped(failed, request.resources))


API = api(32, DescribeConfigsRequest, "1-4", "4+", read, write, failure)
