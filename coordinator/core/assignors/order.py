"""The orders an assignor's result depends on (assignors spec, section 2).

Canonical: ascending by id; the default. Kafka's: the iteration order of its hash tables, an
accident but reproducible (long collision chains aside); offered only to compare results with a
Kafka broker's, item by item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from msgspec import Struct

from groupd.coordinator.core.partitioning import string_hash
from groupd.protocol.messages import TopicId

T = TypeVar("T")
_MASK32 = 0xFFFFFFFF
_INITIAL_CAPACITY = 16
_SIGN_FLIP = 1 << 63


class Order(Struct, frozen=True):
    """Each takes its items in the order in which they were inserted."""

    members: Callable[[Collection[str]], list[str]]
    topics: Callable[[Collection[TopicId]], list[TopicId]]
    partitions: Callable[[Collection[int]], list[int]]


def utf16_key(text: str) -> bytes:
    """Sorts strings as Java does, by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_utf16(texts: Iterable[str]) -> list[str]:
    """Ascending by UTF-16 code unit; plain comparison where that is the same."""
    items = list(texts)
    if all(map(str.isascii, items)):
        return sorted(items)
    return sorted(items, key=utf16_key)


def signed_key(topic_id: TopicId) -> tuple[int, int]:
    """Sorts ids as Java compares them: two signed 64-bit halves."""
    high = int.from_bytes(topic_id[:8], "big") ^ _SIGN_FLIP
    low = int.from_bytes(topic_id[8:], "big") ^ _SIGN_FLIP
    return high, low


def topic_hash(topic_id: TopicId) -> int:
    mixed = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return ((mixed >> 32) ^ mixed) & _MASK32


def hash_table_order(items: Collection[T], hash_of: Callable[[T], int], capacity: int) -> list[T]:
    """Ascending buckets, insertion order inside one."""

    def bucket(item: T) -> int:
        value = hash_of(item) & _MASK32
        return (value ^ (value >> 16)) & (capacity - 1)

    return sorted(items, key=bucket)


def _grown_capacity(size: int) -> int:
    capacity = _INITIAL_CAPACITY
    while size > 0.75 * capacity:
        capacity *= 2
    return capacity


def _presized_capacity(size: int) -> int:
    wanted = max(int(size / 0.75) + 1, _INITIAL_CAPACITY)
    return 1 << (wanted - 1).bit_length()


def _kafka_members(members: Collection[str]) -> list[str]:
    return hash_table_order(members, string_hash, _grown_capacity(len(members)))


def _kafka_topics(topics: Collection[TopicId]) -> list[TopicId]:
    return hash_table_order(topics, topic_hash, _presized_capacity(len(topics)))


def _kafka_partitions(partitions: Collection[int]) -> list[int]:
    return hash_table_order(partitions, lambda number: number, _grown_capacity(len(partitions)))


CANONICAL = Order(members=sorted, topics=sorted, partitions=sorted)
KAFKA = Order(members=_kafka_members, topics=_kafka_topics, partitions=_kafka_partitions)
