"""`ControlledClock`, the clock of an embedded broker: real, accelerated or frozen, and tests can
advance it.

- Groups, offsets, retention and record timestamps follow this clock. Sockets, long polls (a Fetch's
  max wait) and the timeouts of wait functions stay in real time: a frozen clock must not hang a
  client.
- `advance` pins the time. Timers fire one by one, each at its own time, in the order of their
  times; timers for the same time fire in the order in which they were set. The effects of a timer
  are durable and answered before the next one fires. So the same state and the same call give the
  same result.
- Everything here runs on the broker's event loop; only `now` may be called from any thread.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable
from itertools import count

from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import monotonic_ms

FROZEN = 0.0
REAL = 1.0
NS_PER_MS = 1_000_000
Settle = Callable[[], Awaitable[None]]
"""Waits until all work that was started is durable and answered."""


class ManualTimer:
    """A timer that `call_at` has set."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class TimerHeap:
    """Timers sorted by time. Timers for the same time stay in the order in which they were set."""

    def __init__(self) -> None:
        self._order = count()
        self._heap: list[tuple[int, int, ManualTimer]] = []

    def add(self, at_ms: int, callback: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(callback)
        heapq.heappush(self._heap, (at_ms, next(self._order), timer))
        return timer

    def next_ms(self) -> int | None:
        """The time of the first timer that was not cancelled; None if there is none."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> ManualTimer:
        """Remove and return the timer that `next_ms` has found."""
        return heapq.heappop(self._heap)[2]

    def clear(self) -> None:
        self._heap.clear()


def factor_of(mode: str | float) -> float:
    """The factor of a clock mode: "real" is 1, "frozen" is 0, a number above 0 is itself. Raises
    ValueError."""
    if isinstance(mode, str):
        try:
            return {"real": REAL, "frozen": FROZEN}[mode]
        except KeyError:
            raise ValueError(f"clock {mode!r}: must be real, frozen or a factor") from None
    if not mode > 0:
        raise ValueError(f"clock {mode!r}: a factor must be above 0; use frozen to stop it")
    return float(mode)


class ControlledClock:
    """A `coordinator.runtime.clock.Clock`. It starts at the real time.

    `before_timer(monotonic_ms)` is called before each timer that fires in `advance`, and once more
    at the end of `advance`.
    """

    def __init__(
        self, mode: str | float = "real", real_ms: Callable[[], int] = monotonic_ms
    ) -> None:
        """`real_ms()`: the real time that it follows, in milliseconds."""
        self._factor = factor_of(mode)
        self._real_ms = real_ms
        self._base_ms = self._base_real_ms = real_ms()
        self._wall_ahead_ms = time.time_ns() // NS_PER_MS - self._base_ms
        self._pinned_ms: int | None = None
        self._timers = TimerHeap()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.TimerHandle | None = None
        self._wake_ms = 0
        self._advancing = asyncio.Lock()
        self.before_timer: Callable[[int], None] = lambda monotonic_ms: None

    @property
    def factor(self) -> float:
        """0 = frozen, 1 = real."""
        return self._factor

    def now(self) -> Instant:
        now_ms = self._now_ms()
        return Instant(now_ms, now_ms + self._wall_ahead_ms)

    def monotonic_ms(self) -> int:
        return self._now_ms()

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> ManualTimer:
        """Run `callback` once, at or after `monotonic_ms`."""
        timer = self._timers.add(monotonic_ms, callback)
        self._arm()
        return timer

    def set_mode(self, mode: str | float) -> None:
        """Switch to `mode`. The time goes on from where it is."""
        factor = factor_of(mode)
        self._rebase(self._now_ms())
        self._factor = factor
        self._disarm()
        self._arm()

    async def advance(self, ms: int, settle: Settle) -> int:
        """Move the time on by `ms`, in any mode, and return how many timers fired. Calls at the
        same time run one after the other."""
        if ms < 0:
            raise ValueError(f"advance({ms}): time does not run backwards")
        async with self._advancing:
            end_ms = self._pin(self._now_ms()) + ms
            fired = 0
            try:
                await settle()
                while (timer := self._pop(end_ms)) is not None:
                    self.before_timer(self._now_ms())
                    timer.callback()
                    fired += 1
                    await settle()
                self._pin(end_ms)
                self.before_timer(end_ms)
            finally:
                self._rebase(self._now_ms())
                self._pinned_ms = None
                self._arm()
            return fired

    def close(self) -> None:
        """Drop all timers, so that the event loop may end."""
        self._disarm()
        self._timers.clear()
        self._loop = None

    # Time

    def _now_ms(self) -> int:
        if self._pinned_ms is not None:
            return self._pinned_ms
        passed_ms = self._real_ms() - self._base_real_ms
        return self._base_ms + int(passed_ms * self._factor)

    def _pin(self, monotonic_ms: int) -> int:
        self._pinned_ms = monotonic_ms
        return monotonic_ms

    def _rebase(self, monotonic_ms: int) -> None:
        self._base_ms = monotonic_ms
        self._base_real_ms = self._real_ms()

    # Timers

    def _pop(self, end_ms: int) -> ManualTimer | None:
        """The next timer that is due by `end_ms`, or None. Moves the time to that timer's own."""
        at_ms = self._timers.next_ms()
        if at_ms is None or at_ms > end_ms:
            return None
        self._pin(max(at_ms, self._now_ms()))
        return self._timers.pop()

    def _arm(self) -> None:
        """Let the event loop call `_ring` when the earliest timer is due. In frozen time this is
        done only for a timer that is already due, such as one with a delay of 0."""
        at_ms = self._timers.next_ms()
        if at_ms is None or self._pinned_ms is not None:
            return
        left_ms = at_ms - self._now_ms()
        if not self._factor and left_ms > 0:
            return
        if self._wake is not None and self._wake_ms <= at_ms:
            return
        self._disarm()
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        # Like the real clock, rather a millisecond late than early.
        delay_s = max(0.0, (left_ms + 1) / self._factor / 1000) if self._factor else 0.0
        self._wake_ms = at_ms
        self._wake = self._loop.call_later(delay_s, self._ring)

    def _disarm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _ring(self) -> None:
        self._wake = None
        if self._pinned_ms is not None:
            return  # `advance` is running, and arms the timer again when it is done
        now_ms = self._now_ms()
        while (at_ms := self._timers.next_ms()) is not None and at_ms <= now_ms:
            self._timers.pop().callback()
        self._arm()
