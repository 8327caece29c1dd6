"""The resolved regular expressions of a consumer group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from groupd.coordinator.core.counts import decrement, increment
from groupd.protocol.records.schema import ConsumerGroupRegexValue

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
