"""Which partition of `__consumer_offsets` a group id belongs to (docs/spec/offsets-and-log.md#1).

Kafka's rule: Java's `String.hashCode` over UTF-16 code units, absolute value (-2^31 counts as 0),
modulo the number of partitions. Clients never compute it, but tools and other brokers do.
"""

from __future__ import annotations

import struct
from collections import deque

OFFSETS_TOPIC = "__consumer_offsets"
COMPACTED_TOPIC = "__consumer_offsets_compacted"
"""The other view of the same log: a topic that no list and no pattern shows."""

COMPACTED_SUFFIX = ".compacted"

KEPT_KEYS = 65_536
KEPT_LENGTH = 255
"""Characters of the longest key whose hash is kept."""

_CHARS_OF_AN_ITEM = 32
"""Half a microsecond of hashing."""

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


class _Hashes(dict[str, int]):
    """The hashes, without their signs, of the keys that were asked about last. Long keys are not
    kept: nobody accounts for their memory."""

    def __init__(self) -> None:
        super().__init__()
        self._oldest_first: deque[str] = deque()

    def __missing__(self, key: str) -> int:
        value = string_hash(key)
        value = 0 if value == _INT_MIN else abs(value)
        if len(key) <= KEPT_LENGTH:
            self[key] = value
            self._oldest_first.append(key)
            while len(self) > KEPT_KEYS:
                self.pop(self._oldest_first.popleft(), None)
        return value


_HASHES = _Hashes()
"""Hit by nearly every request, so the call below must stay cheap."""


def partition_for(group_id: str, partitions: int) -> int:
    """The partition (shard) of a group id among `partitions`."""
    return _HASHES[group_id] % partitions


def hash_work(key: str) -> int:
    """How much work it is to hash the key, in items of `slices.Work`."""
    return len(key) // _CHARS_OF_AN_ITEM


def offsets_log_name(partition: int) -> str:
    """The store's name of a shard's log."""
    return f"{OFFSETS_TOPIC}-{partition}"


def compacted_log_name(partition: int) -> str:
    """The store's name of what the cleaner has made of a shard's log while that is kept raw."""
    return offsets_log_name(partition) + COMPACTED_SUFFIX
