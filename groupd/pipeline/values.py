"""Turns the value of a record into the value of its struct column (`schema.VALUE_COLUMNS`).

The results are plain dicts in the shape that Arrow takes: times in microseconds, topic ids as text.
What a record does not have (a time, a topic id) is null, not the number that stands for it on the
wire.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from msgspec import Struct

from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.records.schema import (
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegexKey,
    ConsumerGroupTargetMetadataValue,
    OffsetCommitKey,
    Record,
    ShareGroupTargetMetadataValue,
)

FIRST_MS, LAST_MS = -62135596800000, 253402300799999
"""The first millisecond of the year 1 and the last of the year 9999, the range of Python's
calendar."""

_NO_TIME_MS = -1


class OutOfRange(ValueError):
    """A record is well formed, but a column cannot hold one of its values."""


def micros(time_ms: int, absent: int = _NO_TIME_MS) -> int | None:
    """Microseconds since 1970; None if the time is `absent`. Raises OutOfRange."""
    if time_ms == absent:
        return None
    if not FIRST_MS <= time_ms <= LAST_MS:
        raise OutOfRange(f"a time outside of the years 1 to 9999: {time_ms} ms")
    return time_ms * 1000


@lru_cache(maxsize=65536)
def topic_id_text(topic_id: TopicId) -> str | None:
    """The id as UUID text; None for the zero id."""
    return None if topic_id == NO_TOPIC_ID else str(UUID(bytes=topic_id))


def value_of(record: Record) -> dict[str, Any] | None:
    """The value of the struct column; None for a tombstone and for types without a column. The
    tombstone of a regular expression gives the expression, which is part of the key. Raises
    OutOfRange."""
    value = record.value
    if isinstance(value, ConsumerGroupPartitionMetadataValue):
        return None
    made = None if value is None else struct_of(value)
    if isinstance(record.key, ConsumerGroupRegexKey):
        return {"regex": record.key.regex} | (made or {})
    return made


def key_columns(record: Record) -> tuple[str | None, str | None, int | None]:
    """The member, topic and partition that the key of a record names."""
    key = record.key
    if isinstance(key, OffsetCommitKey):
        return None, key.topic, key.partition
    return getattr(key, "member_id", None), None, None


_TIME_SUFFIX = "timestamp_ms"
"""A field such as `commit_timestamp_ms` is the column `commit_time`."""

_DELETING = "deleting"
"""The field with pairs of topic id and topic name."""

_ABSENT_TIMES = {ConsumerGroupTargetMetadataValue: 0, ShareGroupTargetMetadataValue: 0}
"""Stands for no time in these classes: a record older than the field is read as 0."""


@cache
def _columns(kind: type[Any]) -> tuple[tuple[str, str, int | None], ...]:
    """For each field of a class of values: the field, its column, and the number that stands for no
    time (None if the field is not a time)."""
    absent_ms = _ABSENT_TIMES.get(kind, _NO_TIME_MS)
    return tuple(
        (
            name,
            name.replace(_TIME_SUFFIX, "time"),
            absent_ms if name.endswith(_TIME_SUFFIX) else None,
        )
        for name in getattr(kind, "__struct_fields__", None) or kind._fields
    )


def struct_of(value: Any) -> dict[str, Any]:
    """The fields of a value as columns. Raises OutOfRange."""
    kind: Any = type(value)
    made: dict[str, Any] = {}
    for name, column, absent_ms in _columns(kind):
        found = getattr(value, name)
        if absent_ms is not None:
            made[column] = micros(found, absent_ms)
        elif name == "topic_id":
            made[column] = topic_id_text(found)
        elif name == _DELETING:
            made[column] = [
                {"topic_id": topic_id_text(topic_id), "topic_name": topic}
                for topic_id, topic in found
            ]
        elif isinstance(found, tuple):
            made[column] = [struct_of(one) if isinstance(one, Struct) else one for one in found]
        else:
            made[column] = struct_of(found) if isinstance(found, Struct) else found
    return made
