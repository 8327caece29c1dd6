"""The requests about settings of topics, groups and brokers that the command line makes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from groupd.coordinator.cli.kafka.calls import error_name
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.config.values import (
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_GROUP,
    SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Call
from groupd.protocol.writer import Writer

DESCRIBE_CONFIGS = Call(32, 4, "DescribeConfigs", flexible=True)
ALTER_CONFIGS = Call(44, 1, "IncrementalAlterConfigs", flexible=True)

_SET, _DELETE = 0, 1

Error = tuple[int, str | None]
"""A code and its message."""

DEFAULT = "default"
_SOURCES = {
    SOURCE_TOPIC: "topic",
    SOURCE_DYNAMIC_BROKER: "broker",
    SOURCE_DYNAMIC_DEFAULT_BROKER: "all brokers",
    SOURCE_STATIC_BROKER: "static",
    SOURCE_DEFAULT: DEFAULT,
    SOURCE_CLIENT_METRICS: "client metrics",
    SOURCE_GROUP: "group",
}


class Entity(IntEnum):
    """The types of entities that have settings, with Kafka's codes."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSetting(Struct, frozen=True):
    """`value` None: it is secret, or there is none. `source`: where the value comes from: "topic",
    "group" and "broker" are settings of that very one, "static" is the broker's file."""

    name: str
    value: str | None
    source: str
    sensitive: bool
    read_only: bool

    @property
    def is_default(self) -> bool:
        return self.source == DEFAULT


def describe_configs(
    connection: BlockingConnection, entity: Entity, name: str
) -> dict[str, ConfigSetting]:
    """All settings of one topic, group or broker, by name."""

    def write(writer: Writer) -> None:
        for _ in writer.structs((name,)):
            writer.int8(entity)
            writer.string(name)
            writer.null_array()
        writer.boolean(False)
        writer.boolean(False)
        writer.end()

    def setting(reader: Reader) -> ConfigSetting:
        key, value = reader.string(), reader.nullable_string()
        read_only, source, sensitive = reader.boolean(), reader.int8(), reader.boolean()
        reader.structs(lambda one: (one.string(), one.nullable_string(), one.int8()))
        reader.int8()
        reader.nullable_string()
        told = _SOURCES.get(source, f"source {source}")
        return ConfigSetting(key, value, told, sensitive, read_only)

    def resource(reader: Reader) -> tuple[Error, tuple[ConfigSetting, ...]]:
        error = _read_error(reader)
        return error, reader.structs(setting)

    def read(reader: Reader) -> dict[str, ConfigSetting]:
        reader.int32()
        found: dict[str, ConfigSetting] = {}
        for error, settings in reader.structs(resource):
            _check(error, entity, name)
            found |= {one.name: one for one in settings}
        return found

    return connection.call(DESCRIBE_CONFIGS, write, read)


def alter_configs(
    connection: BlockingConnection, entity: Entity, name: str, wanted: Mapping[str, str | None]
) -> None:
    """Set values; None = delete, so that the default or a broker's value holds. All or none.
    Raises KafkaError."""

    def write(writer: Writer) -> None:
        for _ in writer.structs((name,)):
            writer.int8(entity)
            writer.string(name)
            for key, value in writer.structs(wanted.items()):
                writer.string(key)
                writer.int8(_DELETE if value is None else _SET)
                writer.nullable_string(value)
        writer.boolean(False)
        writer.end()

    def read(reader: Reader) -> None:
        reader.int32()
        for error in reader.structs(_read_error):
            _check(error, entity, name)

    connection.call(ALTER_CONFIGS, write, read)


def _read_error(reader: Reader) -> Error:
    error = reader.int16(), reader.nullable_string()
    reader.int8()
    reader.string()
    return error


def _check(error: Error, entity: Entity, name: str) -> None:
    code, message = error
    if code:
        what = f"{entity.name.lower()} {name or '(all)'}"
        raise KafkaError(f"{what}: {message or error_name(code)}")
