"""Trying again to load what could not be loaded, with growing pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from groupd.coordinator.runtime.clock import Clock
from groupd.storage.log import LogError

BACKOFF_MS = 500
BACKOFF_MAX_MS = 10_000


class Reload:
    """Calls `attempt()` in a task of its own until it returns; a LogError means: once more."""

    __slots__ = ("_attempt", "_clock", "_name", "_task")

    def __init__(self, clock: Clock, attempt: Callable[[], Awaitable[None]], name: str) -> None:
        self._clock = clock
        self._attempt = attempt
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def start(self, delay_ms: int) -> None:
        """The first attempt comes after `delay_ms`."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(delay_ms), name=self._name)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """The task, if there was one, runs no more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, delay_ms: int) -> None:
        while True:
            await self._pause(delay_ms)
            try:
                await self._attempt()
            except LogError:
                delay_ms = min(max(2 * delay_ms, BACKOFF_MS), BACKOFF_MAX_MS)
            else:
                return

    async def _pause(self, delay_ms: int) -> None:
        if delay_ms == 0:
            return
        over = asyncio.Event()
        timer = self._clock.call_at(self._clock.now().monotonic_ms + delay_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
