"""How long the event loop was kept from its work: every request waits behind that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from groupd.coordinator.runtime.clock import elapsed_ns

INTERVAL_S = 0.004
BUCKET_NS = 10_000_000_000
BUCKETS = 6
DELAY_NS = 10_000_000
"""From here on a delay is one that requests are not to see."""

STALL_NS = 50_000_000
"""From here on a delay counts as a stall."""


class LoopStalls:
    """Looks every 4 ms by how much it comes too late; a stall is seen at most that much shorter
    than it was. A look takes some 3 microseconds: less than a thousandth of a core."""

    def __init__(self, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._elapsed = elapsed
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self._longest: deque[tuple[int, int]] = deque(maxlen=BUCKETS)
        self.delays = 0
        """Of `DELAY_NS` and more."""
        self.stalls = 0
        """Delays of `STALL_NS` and more."""

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_ns = self._elapsed() + int(INTERVAL_S * 1e9)
        self._timer = loop.call_later(INTERVAL_S, self.tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def tick(self) -> None:
        """The timer has fired: take the measure, set the next one."""
        now_ns = self._elapsed()
        late_ns = max(0, now_ns - self._due_ns)
        self.delays += late_ns >= DELAY_NS
        self.stalls += late_ns >= STALL_NS
        bucket = now_ns // BUCKET_NS
        if self._longest and self._longest[-1][0] == bucket:
            late_ns = max(late_ns, self._longest.pop()[1])
        self._longest.append((bucket, late_ns))
        self.start()

    def longest_ns(self) -> int:
        """Of about the last minute."""
        oldest = self._elapsed() // BUCKET_NS - BUCKETS
        return max((late for bucket, late in self._longest if bucket > oldest), default=0)
