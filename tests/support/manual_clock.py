"""A clock that stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.core.types import Instant
from groupd.testing.clock import ManualTimer, TimerHeap


class ManualClock:
    """A `coordinator.runtime.clock.Clock` that stands still. `advance` moves its monotonic time and
    its wall clock together; `set_wall` makes only the wall clock jump."""

    def __init__(self, monotonic_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._timers = TimerHeap()

    def now(self) -> Instant:
        return Instant(self._monotonic_ms, self._wall_ms)

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> ManualTimer:
        """Call `callback` inside `advance`, never at once, even if its time has come already."""
        return self._timers.add(monotonic_ms, callback)

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
        while (at_ms := self._timers.next_ms()) is not None and at_ms <= end_ms:
            self._move_to(max(at_ms, self._monotonic_ms))
            self._timers.pop().callback()
            fired += 1
        self._move_to(end_ms)
        return fired

    def next_timer_ms(self) -> int | None:
        """Monotonic time of the next timer; None when none is set."""
        return self._timers.next_ms()

    def _move_to(self, monotonic_ms: int) -> None:
        self._wall_ms += monotonic_ms - self._monotonic_ms
        self._monotonic_ms = monotonic_ms
