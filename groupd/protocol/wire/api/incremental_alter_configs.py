"""IncrementalAlterConfigs (44), v0-1. v1 is flexible."""

from __future__ import annotations

from groupd.protocol.messages.topics import (
    AlterConfig,
    AlterResource,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import alter_failure, write_altered
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> IncrementalAlterConfigsRequest:
    resources = reader.structs(_resource)
    validate_only = reader.boolean()
    return IncrementalAlterConfigsRequest(resources, validate_only)


def _resource(reader: Reader) -> AlterResource:
    resource_type = reader.int8()
    name = reader.string()
    configs = reader.structs(_config)
    return AlterResource(resource_type, name, configs)


def _config(reader: Reader) -> AlterConfig:
    name = reader.string()
    operation = reader.int8()
    value = reader.nullable_string()
    return AlterConfig(name, operation, value)


API = api(44, IncrementalAlterConfigsRequest, "0-1", "1+", read, write_altered, alter_failure)
