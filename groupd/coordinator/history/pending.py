"""The records of open transactions in a log, by the rule of docs/spec/offsets-and-log.md#3.4."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class PendingRecords(Generic[K, V]):
    """The records that wait for the marker of their producer, whose epoch plays no part. A record
    counts from the COMMIT on, unless a later record has its key by then. An ABORT drops it, and so
    does a tombstone with its key."""

    def __init__(self) -> None:
        self.by_producer: dict[int, dict[K, V]] = {}

    def add(self, producer_id: int, key: K, record: V) -> None:
        self.by_producer.setdefault(producer_id, {})[key] = record

    def drop(self, key: K) -> None:
        """Apply a tombstone: drop the records of all producers that have its key."""
        for records in self.by_producer.values():
            records.pop(key, None)

    def take(self, producer_id: int) -> dict[K, V]:
        """Remove and return the newest record of each key of a producer, in the order in which the
        keys first came."""
        return self.by_producer.pop(producer_id, {})
