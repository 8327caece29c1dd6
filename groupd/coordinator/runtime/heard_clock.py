"""The clock of groups and sockets. It counts the time in which this process could hear its members.

A process that stands still (SIGSTOP, a snapshot, a suspended machine, one piece of work that holds
the event loop) hears nobody: heartbeats wait in its sockets while their deadlines pass. The rings
of `LoopStalls`, between which the loop reads its sockets, tell that it runs. Three rules:

- Between two rings at most `COUNTED_NS` pass. The rest of a longer pause is lost for good: a
  member whose connection broke meanwhile gets the time to come back.
- If the timer rings on time, deadlines pass on time.
- After a pause that proves nothing: the timers may run before the sockets are looked at. So
  deadlines pass up to the ring *before* the last one. Between those two the loop has polled its
  sockets, and whatever had arrived by the earlier one has been read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import TimerHandle, elapsed_ns

INTERVAL_MS = 4
"""The time between two rings of a loop that is not busy."""

PROVEN_MS = 2 * INTERVAL_MS + 1
"""After this a loop that is not busy has rung twice."""

IN_TIME_NS = 10_000_000
"""A ring comes in time if it comes so soon after the one before. A deadline may miss what has
arrived in so short a time before it."""

COUNTED_NS = 100_000_000
"""At most this much of the time between two rings counts. A loop with more work than it can do
needs less than this for each turn, so its deadlines keep real time."""


class HeardClock:
    """A `Clock`. It begins at the real time, `elapsed` in nanoseconds; wall time stays real."""

    __slots__ = ("_elapsed", "_end_ns", "_in_time", "_proven_ns", "_rang_ns", "lost_ns", "wake")

    def __init__(self, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._elapsed = elapsed
        self._in_time = False
        self.wake: Callable[[], None] = lambda: None
        """Makes the rings come quickly again if they rest."""
        self.lost_ns = 0
        """What did not count, all pauses together."""
        self.start()

    # Who rings ----------------------------------------------------------------------------

    def start(self) -> None:
        """The rings begin now. What lies before counts in full."""
        self._rang_ns = self._elapsed()
        self._end_ns = self._rang_ns + COUNTED_NS
        self._proven_ns = self._rang_ns - self.lost_ns

    def ring(self) -> None:
        """The loop has polled its sockets since the last ring."""
        now_ns = self._elapsed()
        passed_ns = now_ns - self._rang_ns
        self._proven_ns = self._rang_ns - self.lost_ns
        self._in_time = passed_ns <= IN_TIME_NS
        self.lost_ns += max(0, passed_ns - COUNTED_NS)
        self._rang_ns = now_ns
        self._end_ns = now_ns + COUNTED_NS

    # Who asks -----------------------------------------------------------------------------

    # No helper for what these two share: they are asked several times in each request.

    def now(self) -> Instant:
        real_ns = self._elapsed()
        if real_ns > self._end_ns:
            real_ns = self._end_ns
        return Instant((real_ns - self.lost_ns) // 1_000_000, time.time_ns() // 1_000_000)

    def monotonic_ms(self) -> int:
        real_ns = self._elapsed()
        if real_ns > self._end_ns:
            real_ns = self._end_ns
        return (real_ns - self.lost_ns) // 1_000_000

    def heard_ns(self) -> int:
        """The time up to which deadlines may pass: whatever had arrived by then has been read. It
        may go back."""
        real_ns = self._elapsed()
        if self._in_time and real_ns - self._rang_ns <= IN_TIME_NS:
            return real_ns - self.lost_ns
        return self._proven_ns

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> HeardTimer:
        return HeardTimer(self, monotonic_ms, callback)


class HeardTimer:
    """A timer of the loop, set again as long as there may be something to hear from before.

    One that has rung or was cancelled lets go of the loop's timer and of its callback. Each of them
    leads back to it: a cycle for every deadline would be work for the garbage collector."""

    __slots__ = ("_at_ms", "_callback", "_clock", "_handle")

    def __init__(self, clock: HeardClock, at_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._at_ms = at_ms
        self._callback: Callable[[], None] | None = callback
        # A millisecond late rather than early: an early timer has to be set again.
        delay_ms = max(0, at_ms - clock.monotonic_ms() + 1)
        self._handle: TimerHandle | None = _later(delay_ms, self._ring)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._callback = None

    def _ring(self) -> None:
        self._clock.wake()
        left_ms = self._at_ms - self._clock.heard_ns() // 1_000_000
        if left_ms > 0:
            # Two rings prove all that there is to hear.
            self._handle = _later(min(max(left_ms, INTERVAL_MS), PROVEN_MS), self._ring)
            return
        callback = self._callback
        self._handle = self._callback = None
        if callback is not None:
            callback()


def _later(delay_ms: int, ring: Callable[[], None]) -> TimerHandle:
    return asyncio.get_running_loop().call_later(delay_ms / 1000, ring)
