"""Who waits for more of a coordinator's logs, by the partition of their topic."""

from __future__ import annotations

import asyncio


class LogWaiters:
    """Events that are set whenever a log's high watermark moves or its shard's state changes."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[int, set[asyncio.Event]] = {}

    def add(self, partition: int, event: asyncio.Event) -> None:
        self._waiting.setdefault(partition, set()).add(event)

    def remove(self, partition: int, event: asyncio.Event) -> None:
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.discard(event)
            if not waiting:
                del self._waiting[partition]

    def wake(self, partition: int) -> None:
        for event in self._waiting.get(partition, ()):
            event.set()
