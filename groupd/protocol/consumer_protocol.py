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

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from groupd.protocol.primitives import INT16
from groupd.protocol.reader import READ_ERRORS, BadBytes, Reader
from groupd.protocol.schema import Shape, struct
from groupd.protocol.writer import Writer

_NEWEST_VERSION = 3

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


_TOPIC = struct(tuple, "0:string 1:[]int32")
_SUBSCRIPTION = struct(
    EmbeddedSubscription,
    "version:int16 topics:[]string user_data:bytes? owned_partitions:[]topic@1+ "
    "generation_id:int32@2+ rack_id:string?@3+",
    topic=_TOPIC,
)
_ASSIGNMENT = struct(
    EmbeddedAssignment, "version:int16 partitions:[]topic user_data:bytes?", topic=_TOPIC
)


def _read(of: Shape, data: bytes, known: int = _NEWEST_VERSION) -> Any:
    """Reads a struct in the version of the data, or in version `known` if that one is older."""
    try:
        (version,) = INT16.unpack_from(data)
        if version < 0:
            raise BadBytes(f"version {version}")
        version = min(version, known)
        return of.reading(version, False)(Reader(data, 0, version, flexible=False))
    except READ_ERRORS as error:
        raise MalformedSubscription(str(error)) from error


def parse_subscription(data: bytes) -> EmbeddedSubscription:
    """The subscription, with all fields that its version has. Raises MalformedSubscription."""
    found: EmbeddedSubscription = _read(_SUBSCRIPTION, data)
    return replace(found, version=min(found.version, _NEWEST_VERSION))


def parse_assignment(data: bytes) -> EmbeddedAssignment:
    """The assignment in `data`. Raises MalformedSubscription."""
    found: EmbeddedAssignment = _read(_ASSIGNMENT, data)
    return replace(found, version=min(found.version, _NEWEST_VERSION))


def subscribed_topics(data: bytes) -> frozenset[str]:
    """The subscribed topics, from the prefix that every version shares. Raises
    MalformedSubscription."""
    return frozenset(_read(_SUBSCRIPTION, data, known=0).topics)


def encode_assignment(assignment: EmbeddedAssignment) -> bytes:
    """The bytes of an assignment of version 0-3, as `parse_assignment` reads them."""
    writer = Writer(flexible=False)
    _ASSIGNMENT.writing(0, False, stops=False)(writer, assignment)
    return bytes(writer.buffer)
