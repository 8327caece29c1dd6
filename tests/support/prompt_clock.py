"""A clock that stands still and keeps nothing waiting that is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from groupd.testing.clock import ManualTimer
from tests.support.manual_clock import ManualClock


class PromptClock(ManualClock):
    """A timer that is due already fires in the next turn of the event loop, as on the frozen clock
    of the harness. A target without a linger is such a timer."""

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> ManualTimer:
        timer = super().call_at(monotonic_ms, callback)
        if monotonic_ms <= self.monotonic_ms():
            asyncio.get_running_loop().call_soon(self.advance, 0)
        return timer
