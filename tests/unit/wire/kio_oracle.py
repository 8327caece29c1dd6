"""kio as the oracle of the wire tests: its entities as plain data, its bytes, its strategies.

A test describes a message once, for all versions, as a dict with kio's field names. `matches`
compares an entity of one version with it, field by field, and holds every described field that
the version lacks against its default.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

MILLISECOND = datetime.timedelta(milliseconds=1)


@cache
def kio_class(name: str, version: int, kind: str) -> Any:
    """`name` as in ApiVersions ("JoinGroup"); `kind` "request" or "response"."""
    package = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
    module = import_module(f"kio.schema.{package}.v{version}.{kind}")
    return getattr(module, name + kind.capitalize())


@cache
def request_entities(name: str, version: int) -> st.SearchStrategy[Any]:
    return st.from_type(kio_class(name, version, "request"))


def to_bytes(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read_response(name: str, version: int, body: bytes) -> dict[str, Any]:
    """The reply as plain data; fails on leftover bytes."""
    entity, size = entity_reader(kio_class(name, version, "response"))(bytes(body), 0)
    assert size == len(body), f"{len(body) - size} bytes left over"
    plain_entity: dict[str, Any] = plain(entity)
    return plain_entity


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


def assert_matches(
    actual: Any, described: Any, defaults: Mapping[str, Any], path: str = "message"
) -> None:
    """`actual` is of one version, `described` of all; what `actual` lacks has its default."""
    if isinstance(actual, dict):
        assert isinstance(described, dict), path
        for name, value in actual.items():
            assert name in described, f"{path}.{name} is not described"
            assert_matches(value, described[name], defaults, f"{path}.{name}")
        for name in described.keys() - actual.keys():
            if name in defaults:
                assert described[name] == defaults[name], f"{path}.{name} should be absent"
    elif isinstance(actual, list):
        assert len(actual) == len(described), path
        for index, (one, other) in enumerate(zip(actual, described, strict=True)):
            assert_matches(one, other, defaults, f"{path}[{index}]")
    else:
        assert actual == described, path
