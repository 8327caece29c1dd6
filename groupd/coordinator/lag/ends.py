"""What the lag needs to know of logs, whoever has them: this process, or a store that all nodes
share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct


class Bounds(Struct, frozen=True, gc=False):
    """Start and end offset of a log."""

    start: int
    end: int


TopicPartition = tuple[str, int]

Wanted = Mapping[str, Collection[int]]
"""Partitions by topic."""

Found = dict[str, dict[int, Bounds]]
"""Bounds by topic and partition."""


class LogEnds(Protocol):
    async def look(self, wanted: Wanted) -> Found:
        """The bounds of the logs of these partitions; those that do not exist are left out.
        Raises LogError."""
        ...

    async def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        """The offset of the first record of a time or later, in wall-clock ms; None: there is none.
        Raises LogError."""
        ...

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        """The timestamp, in wall-clock ms, of the batch that holds `offset`, or of the next one
        behind it. None: there is no such batch, or it does not tell. Raises LogError."""
        ...
