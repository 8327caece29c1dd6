"""Callers that wait until they are told to look again."""

from __future__ import annotations

import asyncio

from groupd.coordinator.runtime.clock import Clock


class Told:
    """Any number of callers in `wait`; `tell` wakes all of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self, until_ms: int) -> None:
        """Returns when `tell` is called, at `until_ms` (monotonic) at the latest."""
        if until_ms <= self._clock.monotonic_ms():
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_at(until_ms, lambda: _wake(told))
        self._waiting.add(told)
        try:
            await told
        finally:
            timer.cancel()
            self._waiting.discard(told)

    def tell(self) -> None:
        for told in list(self._waiting):
            _wake(told)


def _wake(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)
