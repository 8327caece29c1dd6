"""The two structs that members of classic groups of type "consumer" exchange through the
coordinator.

Both are in the older, non-flexible encoding behind an int16 version:

    subscription  topics [str], user_data bytes?, owned_partitions [str, [int32]] v1+,
                  generation_id int32 v2+, rack_id str? v3+
    assignment    partitions [str, [int32]], user_data bytes?       (one layout, v0-3)

Each version only appends fields, so a reader takes the fields that it knows and ignores the rest; a
version above 3 is read as 3. Offsets only need the topics of the group, for which the v0 prefix is
enough. So future versions stay readable. Source: docs/spec/classic-group.md#1; KIP-429, KIP-792,
KIP-881.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from groupd.protocol.reader import READ_ERRORS, BadBytes, Reader
from groupd.protocol.writer import Writer

_NEWEST_VERSION = 3

T = TypeVar("T")

TopicList = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic name, partitions), in the order of the encoded bytes."""


class MalformedSubscription(ValueError):
    """The bytes are not a valid "consumer" subscription or assignment."""


class EmbeddedSubscription(Struct, frozen=True):
    """A subscription. Fields that its `version` does not have are at their defaults."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: TopicList = ()
    generation_id: int = -1
    rack_id: str | None = None


class EmbeddedAssignment(Struct, frozen=True):
    version: int
    partitions: TopicList
    user_data: bytes | None = None


def _guarded(read: Callable[[Reader], T], data: bytes) -> T:
    try:
        return read(Reader(data, 0, 0, flexible=False))
    except READ_ERRORS as error:
        raise MalformedSubscription(str(error)) from error


def parse_subscription(data: bytes) -> EmbeddedSubscription:
    """The subscription, with all fields that its version has. Raises MalformedSubscription."""
    return _guarded(_read_subscription, data)


def parse_assignment(data: bytes) -> EmbeddedAssignment:
    """The assignment in `data`. Raises MalformedSubscription."""
    return _guarded(_read_assignment, data)


def subscribed_topics(data: bytes) -> frozenset[str]:
    """The subscribed topics, from the prefix that every version shares. Raises
    MalformedSubscription."""
    return frozenset(_guarded(_read_prefix, data)[1])


def encode_assignment(assignment: EmbeddedAssignment) -> bytes:
    """The bytes of an assignment of version 0-3, as `parse_assignment` reads them."""
    writer = Writer(flexible=False)
    writer.int16(assignment.version)
    for name, partitions in writer.structs(assignment.partitions):
        writer.string(name)
        writer.int32_array(partitions)
    writer.nullable_bytes(assignment.user_data)
    return bytes(writer.buffer)


def _read_prefix(reader: Reader) -> tuple[int, tuple[str, ...], bytes | None]:
    return reader.int16(), reader.array(Reader.string), reader.nullable_bytes()


def _known_version(version: int) -> int:
    if version < 0:
        raise BadBytes(f"version {version}")
    return min(version, _NEWEST_VERSION)


def _topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    return reader.string(), reader.int32_array()


def _read_subscription(reader: Reader) -> EmbeddedSubscription:
    raw_version, topics, user_data = _read_prefix(reader)
    version = _known_version(raw_version)
    return EmbeddedSubscription(
        version,
        topics,
        user_data,
        owned_partitions=reader.array(_topic) if version >= 1 else (),
        generation_id=reader.int32() if version >= 2 else -1,
        rack_id=reader.nullable_string() if version >= 3 else None,
    )


def _read_assignment(reader: Reader) -> EmbeddedAssignment:
    version = _known_version(reader.int16())
    return EmbeddedAssignment(version, reader.array(_topic), reader.nullable_bytes())
