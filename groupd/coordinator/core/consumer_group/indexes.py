"""Counters for what a consumer group counts as its members change, and its resolved regular
expressions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from groupd.protocol.records.schema import ConsumerGroupRegexValue

K = TypeVar("K")


def increment(counts: dict[K, int], key: K) -> bool:
    """Count one more for `key`. True if the key is new."""
    before = counts.get(key, 0)
    counts[key] = before + 1
    return before == 0


def decrement(counts: dict[K, int], key: K) -> bool:
    """Count one less for `key`. True if the key is gone."""
    left = counts[key] - 1
    if left:
        counts[key] = left
        return False
    del counts[key]
    return True


def move(counts: dict[K, int], old: K | None, new: K | None) -> None:
    """Count one less for `old` and one more for `new`; None is not counted."""
    if old == new:
        return
    if old is not None:
        decrement(counts, old)
    if new is not None:
        increment(counts, new)


def move_all(counts: dict[K, int], old: Iterable[K], new: Iterable[K]) -> bool:
    """Count one less for each key that only `old` has and one more for each key that only `new`
    has; True if the set of counted keys changed."""
    before, after = set(old), set(new)
    changed = False
    for key in before - after:
        changed |= decrement(counts, key)
    for key in after - before:
        changed |= increment(counts, key)
    return changed


NEVER = -(2**63)
"""Refresh time of a group without resolved expressions."""


class ResolvedRegexes:
    """Hard state of type-16 records. `topics`: for each topic, how many expressions match it;
    `refreshed_at_ms` and `version` are those of the newest resolution."""

    __slots__ = ("_resolved", "refreshed_at_ms", "topics", "version")

    def __init__(self) -> None:
        self._resolved: dict[str, ConsumerGroupRegexValue] = {}
        self.topics: dict[str, int] = {}
        self.refreshed_at_ms = NEVER
        self.version = 0

    def __len__(self) -> int:
        return len(self._resolved)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._resolved))

    def get(self, pattern: str) -> ConsumerGroupRegexValue | None:
        return self._resolved.get(pattern)

    def topics_of(self, pattern: str) -> tuple[str, ...]:
        """The topics that an expression matches; () if the expression is unknown or not resolved
        yet."""
        resolved = self._resolved.get(pattern) if pattern else None
        return () if resolved is None else resolved.topics

    def items(self) -> Mapping[str, ConsumerGroupRegexValue]:
        return self._resolved

    def set(self, pattern: str, value: ConsumerGroupRegexValue | None) -> None:
        """Store the resolution of one expression; None removes it."""
        for topic in self.topics_of(pattern):
            decrement(self.topics, topic)
        if value is None:
            self._resolved.pop(pattern, None)
        else:
            self._resolved[pattern] = value
            for topic in value.topics:
                increment(self.topics, topic)
        resolutions = self._resolved.values()
        self.refreshed_at_ms = max((one.timestamp_ms for one in resolutions), default=NEVER)
        self.version = max((one.version for one in resolutions), default=0)
