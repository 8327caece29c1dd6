"""The two structs that members of type "consumer" exchange through the coordinator.

Both are in the older, non-flexible encoding behind an int16 version:

    subscription  topics [str], user_data bytes?, owned_partitions [str, [int32]] v1+,
                  generation_id int32 v2+, rack_id str? v3+
    assignment    partitions [str, [int32]], user_data bytes?       (one layout, v0-3)

Each version only appends, so a reader takes the fields it knows and ignores the rest; a version
above 3 is read as 3. For offsets (which topics does the group use?) the v0 prefix is enough, so
that future versions stay readable. Source: docs/spec/classic-group.md#1; KIP-429, KIP-792, KIP-881.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NEWEST_VERSION = 3

T = TypeVar("T")

TopicList = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic name, partitions), in the order of the bytes."""


class MalformedSubscription(ValueError):
    """The bytes are no "consumer" subscription or assignment."""


class EmbeddedSubscription(Struct, frozen=True):
    """Fields that `version` lacks have the defaults here."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: TopicList = ()
    generation_id: int = -1
    rack_id: str | None = None


class Assignment(Struct, frozen=True):
    version: int
    partitions: TopicList
    user_data: bytes | None = None


class _Reader:
    __slots__ = ("_data", "_offset")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    def int16(self) -> int:
        return self._fixed(_INT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode()

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedSubscription("null where a string must stand")
        return text

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def array(self, item: Callable[[], T], least: int) -> tuple[T, ...]:
        """Reads an array. `least`: the fewest bytes that an item has."""
        length = self.int32()
        if not 0 <= length * least <= len(self._data) - self._offset:
            raise MalformedSubscription(f"array of {length} items")
        return tuple(item() for _ in range(length))

    def topics(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return self.array(self._topic, _INT16.size + _INT32.size)

    def _topic(self) -> tuple[str, tuple[int, ...]]:
        return self.string(), self.int32_array()

    def int32_array(self) -> tuple[int, ...]:
        length = self.int32()
        if not 0 <= length * _INT32.size <= len(self._data) - self._offset:
            raise MalformedSubscription(f"array of {length} items")
        return self._fixed_many(struct.Struct(f">{length}i"))

    def _fixed(self, layout: struct.Struct) -> int:
        value: int = layout.unpack_from(self._data, self._offset)[0]
        self._offset += layout.size
        return value

    def _fixed_many(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._data, self._offset)
        self._offset += layout.size
        return values

    def _take(self, length: int) -> bytes:
        end = self._offset + length
        if end > len(self._data):
            raise MalformedSubscription("truncated")
        taken = self._data[self._offset : end]
        self._offset = end
        return taken


def _guarded(read: Callable[[_Reader], T], data: bytes) -> T:
    try:
        return read(_Reader(data))
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedSubscription(str(error)) from error


def parse_subscription(data: bytes) -> EmbeddedSubscription:
    """All fields that the version has. Raises MalformedSubscription."""
    return _guarded(_read_subscription, data)


def parse_assignment(data: bytes) -> Assignment:
    """Raises MalformedSubscription."""
    return _guarded(_read_assignment, data)


def subscribed_topics(data: bytes) -> frozenset[str]:
    """The topics, from the prefix that every version shares. Raises MalformedSubscription."""
    return frozenset(_guarded(_read_prefix, data)[1])


def encode_assignment(assignment: Assignment) -> bytes:
    """The inverse of `parse_assignment`, for versions 0-3."""
    out = bytearray(_INT16.pack(assignment.version))
    _write_topics(out, assignment.partitions)
    data = assignment.user_data
    out += _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data
    return bytes(out)


def _read_prefix(reader: _Reader) -> tuple[int, tuple[str, ...], bytes | None]:
    version = reader.int16()
    return version, reader.array(reader.string, _INT16.size), reader.nullable_bytes()


def _known_version(version: int) -> int:
    if version < 0:
        raise MalformedSubscription(f"version {version}")
    return min(version, _NEWEST_VERSION)


def _read_subscription(reader: _Reader) -> EmbeddedSubscription:
    raw_version, topics, user_data = _read_prefix(reader)
    version = _known_version(raw_version)
    return EmbeddedSubscription(
        version,
        topics,
        user_data,
        owned_partitions=reader.topics() if version >= 1 else (),
        generation_id=reader.int32() if version >= 2 else -1,
        rack_id=reader.nullable_string() if version >= 3 else None,
    )


def _read_assignment(reader: _Reader) -> Assignment:
    version = _known_version(reader.int16())
    return Assignment(version, reader.topics(), reader.nullable_bytes())


def _write_topics(out: bytearray, topics: Sequence[tuple[str, tuple[int, ...]]]) -> None:
    out += _INT32.pack(len(topics))
    for name, partitions in topics:
        raw = name.encode()
        out += _INT16.pack(len(raw)) + raw
        out += _INT32.pack(len(partitions))
        out += struct.Struct(f">{len(partitions)}i").pack(*partitions)
