"""A clock that stands still until a test moves it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from groupd.coordinator.core.types import Instant


class ManualTimer:
    """Handle of one `ManualClock.call_at`."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """A `coordinator.runtime.clock.Clock` that stands still. `advance` moves its monotonic time and
    its wall clock together; `set_wall` makes only the wall clock jump."""

    def __init__(self, monotonic_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._order = count()
        self._timers: list[tuple[int, int, ManualTimer]] = []

    def now(self) -> Instant:
        return Instant(self._monotonic_ms, self._wall_ms)

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> ManualTimer:
        """Call `callback` inside `advance`, never at once, even if its time has come already."""
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (monotonic_ms, next(self._order), timer))
        return timer

    def set_wall(self, wall_ms: int) -> None:
        """Let the wall clock jump to `wall_ms`. Timers follow the monotonic time, so they are not
        affected."""
        self._wall_ms = wall_ms

    def advance(self, ms: int) -> int:
        """Move the time on by `ms` and return how many timers fired. Each timer fires at its own
        time, in the order of the times; timers for the same time fire in the order in which they
        were set. Timers that are set meanwhile fire too if they become due."""
        if ms < 0:
            raise ValueError(f"advance({ms}): time does not run backwards")
        end_ms = self._monotonic_ms + ms
        fired = 0
        while self._timers and self._timers[0][0] <= end_ms:
            at_ms, _, timer = heapq.heappop(self._timers)
            if timer.cancelled:
                continue
            self._move_to(max(at_ms, self._monotonic_ms))
            timer.callback()
            fired += 1
        self._move_to(end_ms)
        return fired

    def next_timer_ms(self) -> int | None:
        """Monotonic time of the next timer; None when none is set."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _move_to(self, monotonic_ms: int) -> None:
        self._wall_ms += monotonic_ms - self._monotonic_ms
        self._monotonic_ms = monotonic_ms
