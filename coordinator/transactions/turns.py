"""Waiting, not for long, until a transactional id takes changes again."""

from __future__ import annotations

import asyncio

from groupd.coordinator.runtime.clock import Clock


class Turns:
    """Who waits for which id. Empty while nobody does."""

    __slots__ = ("_clock", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def wait(self, transactional_id: str, until_ms: int) -> bool:
        """True after `wake`, False at `until_ms` (monotonic) or if that has passed."""
        if self._clock.now().monotonic_ms >= until_ms:
            return False
        over = asyncio.Event()
        waiting = self._waiting.setdefault(transactional_id, set())
        waiting.add(over)
        timer = self._clock.call_at(until_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            waiting.discard(over)
            # After `wake` others may wait anew, in a set of their own.
            if not waiting and self._waiting.get(transactional_id) is waiting:
                del self._waiting[transactional_id]
        return self._clock.now().monotonic_ms < until_ms

    def wake(self, transactional_id: str) -> None:
        for event in self._waiting.pop(transactional_id, set()):
            event.set()

    def wake_all(self) -> None:
        for transactional_id in list(self._waiting):
            self.wake(transactional_id)
