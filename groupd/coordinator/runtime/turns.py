"""Long work on the event loop in slices, so that requests have their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

from groupd.coordinator.runtime.clock import elapsed_ns

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


class Turns:
    """Works for `slice_ms` at a time, then sleeps `rest` times as long as it has worked."""

    def __init__(self, slice_ms: float, rest: float, sleep: Sleep = asyncio.sleep) -> None:
        self._slice_ns = int(slice_ms * 1_000_000)
        self._rest = rest
        self._sleep = sleep
        self._since_ns = elapsed_ns()

    @property
    def over(self) -> bool:
        return elapsed_ns() - self._since_ns >= self._slice_ns

    async def pause(self) -> None:
        worked_ns = elapsed_ns() - self._since_ns
        await self._sleep(worked_ns * self._rest / 1_000_000_000)
        self._since_ns = elapsed_ns()

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Drives `steps` to its end; every yield and the end are a chance for others."""
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                result: T = ended.value
                break
            if self.over:
                await self.pause()
        if self.over:
            await self.pause()
        return result
