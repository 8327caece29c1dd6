"""Converts records to JSON and back, in the shape that Kafka's own message formatters print.

A key is `{"type": n, "data": {...}}`, a value `{"version": n, "data": {...}}` or null. Field names
are those of Kafka's schemas; bytes are base64, and ids are Kafka's 22 characters of base64url. So
what kafka-console-consumer wrote with a formatter can be read here, and scripts that know its
output can read ours.
"""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Struct

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records import schema
from groupd.protocol.records.codec import TYPES_BY_PREFIX
from groupd.protocol.records.schema import Record, RecordKey, RecordValue

Json = dict[str, Any]

_TOPIC_ID = "topic_id"
"""Fields with this name are written as ids, in Kafka's way; other bytes are base64."""


class BadJson(ValueError):
    """The object is not a record; `str()` says why."""


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """The bytes of a topic id that `id_text` wrote. Raises ValueError."""
    raw = urlsafe_b64decode(text + "==")
    if len(raw) != len(NO_TOPIC_ID):
        raise ValueError(f"{text} is no topic id")
    return raw


def _classes(number: int) -> tuple[Any, Any] | None:
    """The key class and the value class of a record type, which are named XKey and XValue in one
    module; None for a type that is not held."""
    for one in TYPES_BY_PREFIX.values():
        if one.number == number:
            name = one.key.__name__.removesuffix("Key") + "Value"
            return one.key, getattr(sys.modules[one.key.__module__], name)
    return None


def key_json(number: int, key: RecordKey) -> Json:
    """The key as JSON. `number`: the record type in the encoded key."""
    return {"type": number, "data": _write(key)}


def value_json(version: int, value: RecordValue) -> Json:
    return {"version": version, "data": _write(value)}


def record_of(key: Any, value: Any) -> Record | None:
    """The record from the JSON of its key and value; None for a type that is not held here. Raises
    BadJson."""
    try:
        number = key["type"]
        classes = _classes(number)
        if classes is None:
            return None
        key_kind, value_kind = classes
        decoded = _read(key_kind, key["data"])
        return Record(decoded, None if value is None else _read(value_kind, value["data"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadJson(f"no record: {type(error).__name__}: {error}") from error


_NAMES = {
    (schema.OffsetCommitKey, "group"): "group",
    (schema.GroupMetadataKey, "group"): "group",
    (schema.ConsumerGroupRegexKey, "regex"): "regularExpression",
    (schema.GroupMetadataMember, "rebalance_timeout_ms"): "rebalanceTimeout",
    (schema.GroupMetadataMember, "session_timeout_ms"): "sessionTimeout",
    (schema.ConsumerGroupMemberMetadataValue, "classic"): "classicMemberMetadata",
    (schema.ConsumerGroupTargetMemberValue, "topics"): "topicPartitions",
    (schema.ConsumerGroupCurrentMemberValue, "assigned"): "assignedPartitions",
    (schema.ConsumerGroupCurrentMemberValue, "pending_revocation"): "partitionsPendingRevocation",
}
"""Fields whose name in Kafka's schemas differs from the one that `_name_of` makes."""


def _name_of(kind: type[Any], attribute: str) -> str:
    """A field's name in JSON: `member_id` -> memberId, `commit_timestamp_ms` -> commitTimestamp,
    `group` -> groupId."""
    known = _NAMES.get((kind, attribute))
    if known is not None:
        return known
    if attribute == "group":
        return "groupId"
    first, *rest = attribute.removesuffix("_ms").split("_")
    if attribute.endswith("_ms") and "timestamp" not in (first, *rest):
        rest.append("ms")
    return first + "".join(word.capitalize() for word in rest)


class _Field(NamedTuple):
    attribute: str
    name: str
    read: Callable[[Any], Any]


@cache
def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    return tuple(
        _Field(attribute, _name_of(kind, attribute), _reader(hint, attribute))
        for attribute, hint in get_type_hints(kind).items()
    )


def _reader(hint: Any, attribute: str) -> Callable[[Any], Any]:
    """A function that makes a field of this type from its JSON."""
    inner = [one for one in get_args(hint) if one not in (NoneType, Ellipsis)]
    if get_origin(hint) is UnionType:
        some = _reader(inner[0], attribute)
        return lambda data: None if data is None else some(data)
    if get_origin(hint) is tuple:
        item = _reader(inner[0], attribute)
        return lambda data: tuple([item(one) for one in data])
    if hint is bytes:
        return id_bytes if attribute == _TOPIC_ID else b64decode
    if isinstance(hint, type) and issubclass(hint, Struct):
        return lambda data: _read(hint, data)
    return lambda data: data


def _read(kind: Any, data: Json) -> Any:
    """Fields that older versions do not have get their defaults."""
    return kind(
        **{one.attribute: one.read(data[one.name]) for one in _fields(kind) if one.name in data}
    )


def _write(item: Any) -> Json:
    kind: Any = type(item)
    return {one.name: _plain(getattr(item, one.attribute), one.attribute) for one in _fields(kind)}


def _plain(value: Any, attribute: str) -> Any:
    if isinstance(value, bytes):
        return id_text(value) if attribute == _TOPIC_ID else b64encode(value).decode()
    if isinstance(value, tuple):
        return [_plain(item, attribute) for item in value]
    return _write(value) if isinstance(value, Struct) else value
