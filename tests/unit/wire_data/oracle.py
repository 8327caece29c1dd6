"""kio as the oracle: it decides which fields a version has and how they stand on the wire.

A sample gives one dict with the fields of all versions under Kafka's names (snake case); kio's
class of a version picks those that it has. Milliseconds, ids and errors are given as they
stand on the wire and converted here.
"""

from __future__ import annotations

import io
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode as KioError
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, classify_field

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _class(api: str, kind: str, version: int) -> Any:
    module = import_module(f"kio.schema.{api}.v{version}.{kind.lower()}")
    return getattr(module, "".join(part.title() for part in api.split("_")) + kind)


def _wire_name(field: Any) -> str:
    is_duration = str(field.metadata.get("kafka_type")).startswith(("timedelta", "datetime"))
    return f"{field.name}_ms" if is_duration else field.name


def _primitive(kafka_type: str, value: Any) -> Any:
    match kafka_type, value:
        case ("uuid", bytes()):
            return UUID(bytes=value) if any(value) else None
        case ("timedelta_i32" | "timedelta_i64", int()):
            return timedelta(milliseconds=value)
        case ("datetime_i64", int()):
            return None if value == -1 else EPOCH + timedelta(milliseconds=value)
        case ("error_code", _):
            return KioError(value)
    return value


def _entity(cls: Any, values: dict[str, Any]) -> Any:
    converted = {}
    for field in fields(cls):
        name = _wire_name(field)
        if name not in values and "tag" in field.metadata:
            continue
        value = values[name]
        kind = classify_field(field)
        if value is None:
            converted[field.name] = None
        elif isinstance(kind, EntityTupleField):
            converted[field.name] = tuple(_entity(kind.type_, item) for item in value)
        elif isinstance(kind, EntityField):
            converted[field.name] = _entity(kind.type_, value)
        else:
            converted[field.name] = _primitive(field.metadata["kafka_type"], value)
    return cls(**converted)


def request_bytes(api: str, version: int, values: dict[str, Any]) -> bytes:
    """The body that kio writes for a request with these fields."""
    cls = _class(api, "Request", version)
    buffer = io.BytesIO()
    entity_writer(cls)(buffer, _entity(cls, values))
    return buffer.getvalue()


def check_reply(api: str, version: int, body: bytes, values: dict[str, Any]) -> None:
    """kio reads exactly these fields from `body` and leaves no byte over."""
    cls = _class(api, "Response", version)
    entity, size = entity_reader(cls)(body, 0)
    assert entity == _entity(cls, values)
    assert size == len(body)


def read_reply(api: str, version: int, body: bytes) -> Any:
    entity, size = entity_reader(_class(api, "Response", version))(body, 0)
    assert size == len(body)
    return entity
