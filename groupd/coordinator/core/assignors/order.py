"""The orders of members, topics and partitions that an assignor's result depends on
(docs/spec/assignors.md#2).

CANONICAL, the default, is ascending by id. KAFKA is the order in which Kafka iterates its hash
tables. Kafka does not promise that order, but it can be reproduced, except for long collision
chains. It is only for comparing results with those of a Kafka broker.
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


class MemberOrder(Struct, frozen=True):
    """Three functions that sort members, topics and partitions. Each gets its items in the order in
    which they were inserted."""

    members: Callable[[Collection[str]], list[str]]
    topics: Callable[[Collection[TopicId]], list[TopicId]]
    partitions: Callable[[Collection[int]], list[int]]


def utf16_key(text: str) -> bytes:
    """A key that sorts strings as Java does, by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


def sorted_utf16(texts: Iterable[str]) -> list[str]:
    """The texts, ascending by UTF-16 code unit."""
    items = list(texts)
    if all(map(str.isascii, items)):
        return sorted(items)
    return sorted(items, key=utf16_key)


def signed_key(topic_id: TopicId) -> tuple[int, int]:
    """A key that sorts topic ids as Java does: as two signed 64-bit numbers."""
    high = int.from_bytes(topic_id[:8], "big") ^ _SIGN_FLIP
    low = int.from_bytes(topic_id[8:], "big") ^ _SIGN_FLIP
    return high, low


def topic_hash(topic_id: TopicId) -> int:
    """Java's `Uuid.hashCode`, as an unsigned 32-bit number."""
    mixed = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return ((mixed >> 32) ^ mixed) & _MASK32


def hash_table_order(items: Collection[T], hash_of: Callable[[T], int], capacity: int) -> list[T]:
    """The items in the order of a Java hash table: by bucket, and within a bucket by insertion."""

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


CANONICAL = MemberOrder(members=sorted, topics=sorted, partitions=sorted)
KAFKA = MemberOrder(members=_kafka_members, topics=_kafka_topics, partitions=_kafka_partitions)
