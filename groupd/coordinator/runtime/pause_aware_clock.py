"""The clock of groups and sockets. It counts the time in which this process could hear its members.

A process that stands still (SIGSTOP, a snapshot, a suspended machine, one piece of work that holds
the event loop) hears no member: heartbeats wait in its sockets while their deadlines pass.
`LoopStalls` calls `ring` every few milliseconds, and the loop reads its sockets in between. So the
rings show that the process runs. Three rules:

- Between two rings at most `COUNTED_NS` is counted. The rest of a longer pause never counts: a
  member whose connection broke meanwhile gets the time to come back.
- If the last ring came in time, deadlines pass in real time.
- A ring after a pause does not yet show that heartbeats were read, because timers may run before
  the sockets are polled. So deadlines pass only up to the ring *before* the last one. Between these
  two rings the loop has polled its sockets, and has read whatever had arrived by the earlier one.
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
"""After this time a loop that is not busy has rung twice."""

IN_TIME_NS = 10_000_000
"""A ring is in time if it comes at most this long after the one before. A deadline may miss a
heartbeat that arrived at most this long before it."""

COUNTED_NS = 100_000_000
"""At most this much of the time between two rings counts. An overloaded loop needs less than this
for a turn, so its deadlines keep real time."""


class PauseAwareClock:
    """A `Clock` that starts at the real time. `elapsed`: the real clock, in nanoseconds. The wall
    time stays real."""

    __slots__ = ("_elapsed", "_end_ns", "_in_time", "_proven_ns", "_rang_ns", "lost_ns", "wake")

    def __init__(self, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._elapsed = elapsed
        self._in_time = False
        self.wake: Callable[[], None] = lambda: None
        """Makes the rings come quickly again after the loop has rested."""
        self.lost_ns = 0
        """The time that did not count, summed up over all pauses."""
        self.start()

    # Who rings ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the rings now. The time before counts in full."""
        self._rang_ns = self._elapsed()
        self._end_ns = self._rang_ns + COUNTED_NS
        self._proven_ns = self._rang_ns - self.lost_ns

    def ring(self) -> None:
        """Called when the loop has polled its sockets since the last ring."""
        now_ns = self._elapsed()
        passed_ns = now_ns - self._rang_ns
        self._proven_ns = self._rang_ns - self.lost_ns
        self._in_time = passed_ns <= IN_TIME_NS
        self.lost_ns += max(0, passed_ns - COUNTED_NS)
        self._rang_ns = now_ns
        self._end_ns = now_ns + COUNTED_NS

    # Who asks -----------------------------------------------------------------------------

    # No helper for what these two share: they are called several times in each request.

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

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> PauseAwareTimer:
        return PauseAwareTimer(self, monotonic_ms, callback)


class PauseAwareTimer:
    """A timer of the loop. It is set again while heartbeats from before its time may still be
    unread.

    When it has rung or is cancelled it drops its references to the loop's timer and to its
    callback. Both refer back to this object: a cycle for every deadline would be work for the
    garbage collector.
    """

    __slots__ = ("_at_ms", "_callback", "_clock", "_handle")

    def __init__(self, clock: PauseAwareClock, at_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._at_ms = at_ms
        self._callback: Callable[[], None] | None = callback
        # Rather a millisecond late than early: an early timer has to be set again.
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
            # After two rings everything that had arrived is read.
            self._handle = _later(min(max(left_ms, INTERVAL_MS), PROVEN_MS), self._ring)
            return
        callback = self._callback
        self._handle = self._callback = None
        if callback is not None:
            callback()


def _later(delay_ms: int, ring: Callable[[], None]) -> TimerHandle:
    return asyncio.get_running_loop().call_later(delay_ms / 1000, ring)
