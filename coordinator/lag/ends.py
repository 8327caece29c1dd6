"""What the lag needs to know of logs, whoever has them: this process, the main process, or a store
that all nodes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

TopicPartition = tuple[str, int]
"""Topic name and partition."""

Bounds = tuple[int, int]
"""Start and end offset of a log."""


class LogEnds(Protocol):
    async def look(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """The bounds of the logs of these partitions; those that do not exist are left out.
        Raises LogError."""
        ...

    async def written_ms(self, place: TopicPartition, offset: int) -> int | None:
        """The timestamp, in wall-clock ms, of the batch that holds `offset`, or of the next one
        behind it. None: there is no such batch, or it does not tell. Raises LogError."""
        ...
