"""The record types of `__consumer_offsets` by name, and the group that a key belongs to.

Keys of all types, also of those that this coordinator does not hold, begin with the group id. So
records of share and streams groups can be counted, filtered and left out by group.
"""

from __future__ import annotations

import struct
from struct import Struct

from groupd.protocol.records.codec import TYPES_BY_PREFIX, CorruptRecord, record_type

_LENGTH = Struct(">h")

MARKER = "marker"
"""Control records, which have no type of their own."""

TYPE_NAMES = {
    0: "legacy-offset-commit",
    1: "offset-commit",
    2: "group-metadata",
    3: "consumer-group-metadata",
    4: "consumer-group-partition-metadata",
    5: "consumer-group-member-metadata",
    6: "consumer-group-target-assignment-metadata",
    7: "consumer-group-target-assignment-member",
    8: "consumer-group-current-member-assignment",
    10: "share-group-member-metadata",
    11: "share-group-metadata",
    12: "share-group-target-assignment-metadata",
    13: "share-group-target-assignment-member",
    14: "share-group-current-member-assignment",
    15: "share-group-state-partition-metadata",
    16: "consumer-group-regular-expression",
    17: "streams-group-metadata",
    19: "streams-group-member-metadata",
    20: "streams-group-target-assignment-metadata",
    21: "streams-group-target-assignment-member",
    22: "streams-group-current-member-assignment",
    23: "streams-group-topology",
}
UNHELD_TYPES = frozenset({*range(10, 16), *range(17, 24)})
"""Records of share and streams groups, which this coordinator does not hold."""

CHOICES = (*TYPE_NAMES.values(), MARKER)


def type_name(number: int) -> str:
    return TYPE_NAMES.get(number, f"type-{number}")


def group_of(key: bytes) -> str | None:
    """The group id in an encoded key; None when the type is unknown or the key is damaged."""
    try:
        if record_type(key) not in TYPE_NAMES and key[:2] not in TYPES_BY_PREFIX:
            return None
        (length,) = _LENGTH.unpack_from(key, 2)
        raw = key[4 : 4 + length]
        return raw.decode() if len(raw) == length else None
    except (CorruptRecord, UnicodeDecodeError, struct.error):
        return None
