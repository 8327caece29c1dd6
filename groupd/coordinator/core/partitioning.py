"""Which partition of `__consumer_offsets` a group id belongs to (docs/spec/offsets-and-log.md#1).

Kafka's rule: Java's `String.hashCode` over UTF-16 code units, absolute value (-2^31 counts as 0),
modulo the number of partitions. Clients never compute it, but tools and other brokers do.
"""

from __future__ import annotations

import struct
from functools import lru_cache

OFFSETS_TOPIC = "__consumer_offsets"
COMPACTED_TOPIC = "__consumer_offsets_compacted"
"""The topic whose partitions show the compacted logs of the shards. No list and no pattern shows
it."""

COMPACTED_SUFFIX = ".compacted"

KEPT_KEYS = 65_536
KEPT_LENGTH = 255
"""Hashes of keys with more characters than this are not cached."""

_CHARS_OF_AN_ITEM = 32
"""Hashing this many characters, half a microsecond, counts as one item of `slices.Pace`."""

_MASK32 = 0xFFFFFFFF
_INT_MIN = -(2**31)


def string_hash(text: str) -> int:
    """h = 31*h + unit over the UTF-16 units, as a signed 32-bit integer."""
    value = 0
    for unit in _utf16_units(text):
        value = (31 * value + unit) & _MASK32
    return value - (1 << 32) if value >> 31 else value


def _utf16_units(text: str) -> bytes | tuple[int, ...]:
    if text.isascii():
        return text.encode()
    encoded = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(encoded) // 2}H", encoded)


def _positive_hash(key: str) -> int:
    value = string_hash(key)
    return 0 if value == _INT_MIN else abs(value)


_kept_hash = lru_cache(maxsize=KEPT_KEYS)(_positive_hash)


def partition_for(group_id: str, partitions: int) -> int:
    """The partition (shard) of a group id among `partitions` partitions. The hash of a long id is
    not cached, because the memory of its text is accounted for nowhere."""
    hashed = _kept_hash if len(group_id) <= KEPT_LENGTH else _positive_hash
    return hashed(group_id) % partitions


def hash_work(key: str) -> int:
    """How much work it is to hash the key, in items of `slices.Pace`."""
    return len(key) // _CHARS_OF_AN_ITEM


def offsets_log_name(partition: int) -> str:
    """The name of a shard's log in the store."""
    return f"{OFFSETS_TOPIC}-{partition}"


def compacted_log_name(partition: int) -> str:
    """The name in the store of the compacted log that the cleaner makes of a shard's log."""
    return offsets_log_name(partition) + COMPACTED_SUFFIX
