"""Measures how long the event loop was kept from its work, because every request waits for that
long.

The same timer tells the clock of groups that the loop has come round. While the loop has nothing to
do the timer rests: it rings every 50 ms instead of every 4. Data on a socket, a deadline or a
request to the admin port wakes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.coordinator.runtime.pause_aware_clock import INTERVAL_MS, PauseAwareClock

log = structlog.get_logger("groupd.loop")

INTERVAL_S = INTERVAL_MS / 1000
REST_S = 0.05
"""The interval while the loop has nothing to do. It must stay below the 100 ms that the clock of
groups counts between two rings."""

REST_AFTER = 25
"""After this many rings in a row in which nothing has happened, the loop rests."""

BUCKET_NS = 10_000_000_000
BUCKETS = 6
DELAY_NS = 10_000_000
"""A delay of this length or more should not happen to a request."""

STALL_NS = 50_000_000
"""A delay of this length or more counts as a stall."""

PAUSE_NS = 1_000_000_000
"""A delay of this length or more is worth a line in the log."""

_NEVER = 1 << 62


class LoopStalls:
    """Measures every 4 ms how late its timer is. A stall is seen at most that much shorter than it
    was. A measurement takes some 4 microseconds: a thousandth of a core. `clock` is told of each
    ring. `awake`: something has happened since the last ring. A caller that brings work to the loop
    calls `wake` if `awake` is not set."""

    def __init__(
        self, clock: PauseAwareClock | None = None, elapsed: Callable[[], int] = elapsed_ns
    ) -> None:
        self.clock = clock or PauseAwareClock(elapsed)
        self.clock.wake = self.wake
        self.awake = True
        self._quiet_rings = 0
        self._elapsed = elapsed
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self.rang_ns = _NEVER
        """When the timer rang last, by `elapsed`; far in the future while it is off."""
        self._longest: deque[tuple[int, int]] = deque(maxlen=BUCKETS)
        self.delays = 0
        self.stalls = 0

    def start(self) -> None:
        self.clock.start()
        self.rang_ns = self._elapsed()
        self._due_ns = self.rang_ns + int(INTERVAL_S * 1e9)
        self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.rang_ns = _NEVER

    @property
    def resting(self) -> bool:
        return self._quiet_rings >= REST_AFTER

    def wake(self) -> None:
        """Something has happened, or is due. If the loop rested, the short rings begin again
        now."""
        self.awake = True
        if self.resting and self.rang_ns != _NEVER:
            self._quiet_rings = 0
            self.rang_ns = self._elapsed()
            self._due_ns = self.rang_ns + int(INTERVAL_S * 1e9)
            if self._timer is not None:
                self._timer.cancel()
            self._set_timer()

    def _set_timer(self) -> None:
        if self.rang_ns != _NEVER:
            delay_s = max(0, self._due_ns - self._elapsed()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay_s, self.tick)

    def tick(self) -> None:
        """The timer has fired: take the measurement, set the next timer."""
        now_ns = self.rang_ns = self._elapsed()
        self.clock.ring()
        late_ns = max(0, now_ns - self._due_ns)
        self.delays += late_ns >= DELAY_NS
        self.stalls += late_ns >= STALL_NS
        if late_ns >= PAUSE_NS:
            log.warning("the process stood still", seconds=round(late_ns / 1e9, 1))
        bucket = now_ns // BUCKET_NS
        if self._longest and self._longest[-1][0] == bucket:
            late_ns = max(late_ns, self._longest.pop()[1])
        self._longest.append((bucket, late_ns))
        self._quiet_rings = 0 if self.awake else self._quiet_rings + 1
        self.awake = False
        self._due_ns = now_ns + int((REST_S if self.resting else INTERVAL_S) * 1e9)
        # In uvloop and asyncio alike, callbacks run before sockets are polled and timers after it.
        # A timer that is set while timers run may fire in the same round, with no poll in between:
        # uvloop does so when other timers of the round have taken longer than the interval.
        asyncio.get_running_loop().call_soon(self._set_timer)

    def longest_ns(self) -> int:
        """The longest delay of about the last minute."""
        oldest = self._elapsed() // BUCKET_NS - BUCKETS
        return max((late for bucket, late in self._longest if bucket > oldest), default=0)
