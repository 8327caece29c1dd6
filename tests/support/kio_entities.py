"""kio's message classes behind plain data: dicts with kio's field names, durations as integer
milliseconds, ids as 16 bytes, error codes as integers. One description serves every version: what
a version lacks is left out, what is not given gets its default.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import types
import typing
import uuid
from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any

from kio.serial import entity_reader, entity_writer

MILLISECOND = datetime.timedelta(milliseconds=1)
Plain = dict[str, Any]


@cache
def message_class(name: str, version: int, kind: str) -> Any:
    """`name` as in ApiVersions ("JoinGroup"); `kind` "request" or "response"."""
    package = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
    module = import_module(f"kio.schema.{package}.v{version}.{kind}")
    return getattr(module, name + kind.capitalize())


@cache
def entity_hints(entity_class: Any) -> dict[str, Any]:
    """The types of its fields by name."""
    return typing.get_type_hints(entity_class)


def build(entity_class: Any, fields: Mapping[str, Any]) -> Any:
    """An entity from plain data."""
    hints = entity_hints(entity_class)
    values = {}
    for field in dataclasses.fields(entity_class):
        kafka_type = field.metadata.get("kafka_type", "")
        if field.name in fields:
            values[field.name] = _value(hints[field.name], kafka_type, fields[field.name])
        elif field.default is dataclasses.MISSING:
            values[field.name] = _default(hints[field.name], kafka_type)
    return entity_class(**values)


def options(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)


def _value(hint: Any, kafka_type: str, value: Any) -> Any:
    if value is None:
        return None
    inner = next(option for option in options(hint) if option is not type(None))
    if typing.get_origin(inner) is tuple:
        item = typing.get_args(inner)[0]
        return tuple(_value(item, kafka_type, one) for one in value)
    if dataclasses.is_dataclass(inner):
        return build(inner, value)
    if kafka_type.startswith(("timedelta", "datetime")):
        return value * MILLISECOND
    if kafka_type == "uuid":
        return uuid.UUID(bytes=value)
    return value


def _default(hint: Any, kafka_type: str) -> Any:
    given = options(hint)
    if type(None) in given:
        return None
    if typing.get_origin(given[0]) is tuple:
        return ()
    by_type = {"string": "", "bool": False, "bytes": b"", "uuid": None}
    return _value(given[0], kafka_type, by_type.get(kafka_type, 0))


def to_bytes(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def request_bytes(name: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """The body of a request."""
    return to_bytes(build(message_class(name, version, "request"), fields))


def read_response(name: str, version: int, body: bytes) -> Plain:
    """The reply as plain data; fails on leftover bytes."""
    entity, size = entity_reader(message_class(name, version, "response"))(bytes(body), 0)
    assert size == len(body), f"{name} v{version}: {len(body) - size} bytes left over"
    found: Plain = plain(entity)
    return found


def plain(value: Any, kafka_type: str = "") -> Any:
    """Entities as dicts, durations as int ms, ids as 16 bytes, codes as int."""
    if dataclasses.is_dataclass(value):
        return {
            f.name: plain(getattr(value, f.name), f.metadata.get("kafka_type", ""))
            for f in dataclasses.fields(value)
        }
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, uuid.UUID):
        return value.bytes
    if value is None and kafka_type == "uuid":
        return bytes(16)
    if isinstance(value, Enum):
        return int(value.value[0] if isinstance(value.value, tuple) else value.value)
    return value
