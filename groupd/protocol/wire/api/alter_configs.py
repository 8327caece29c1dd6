"""AlterConfigs (33), v0-2. v1 changes throttling only, v2 is flexible.

A resource is replaced: keys that are not named go back to their defaults.
"""

from __future__ import annotations

from groupd.protocol.messages.topics import (
    AlterConfig,
    AlterConfigsRequest,
    AlterResource,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import alter_failure, write_altered
from groupd.protocol.wire.registry import api

_SET = 0


def read(reader: Reader) -> AlterConfigsRequest:
    resources = reader.structs(_resource)
    validate_only = reader.boolean()
    return AlterConfigsRequest(resources, validate_only)


def _resource(reader: Reader) -> AlterResource:
    resource_type = reader.int8()
    name = reader.string()
    configs = reader.structs(_config)
    return AlterResource(resource_type, name, configs, replace=True)


def _config(reader: Reader) -> AlterConfig:
    name = reader.string()
    value = reader.nullable_string()
    return AlterConfig(name, _SET, value)


API = api(33, AlterConfigsRequest, "0-2", "2+", read, write_altered, alter_failure)
