"""The tasks of a shard: background work on its log, and whatever else must end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class ShardTasks:
    """The tasks of one shard that run now."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def ended(self) -> None:
        """Wait until none runs."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
