"""Computes rates from counters that are read only when scraped.

A rate is the increase since the oldest reading within the window. So several scrapers do not
disturb each other, and nothing runs between scrapes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from groupd.coordinator.runtime.clock import Clock, thread_cpu_s

WINDOW_MS = 60_000
APART_MS = 1_000
"""A reading is not remembered if it follows the one before it faster than this."""


class Beginning:
    """The moment of a start: the time of the clock, and the processor time of the calling
    thread."""

    __slots__ = ("cpu_s", "monotonic_ms")

    def __init__(self, clock: Clock) -> None:
        self.monotonic_ms = clock.now().monotonic_ms
        self.cpu_s = thread_cpu_s()


class Rates:
    """The per-second rates of named counters, which were all 0 at `start_ms`."""

    def __init__(self, start_ms: int) -> None:
        self._looks: deque[tuple[int, Mapping[str, float]]] = deque([(start_ms, {})])

    def look(self, now_ms: int, counters: Mapping[str, float]) -> dict[str, float]:
        """The rates over the last minute, or since the last reading if that is older."""
        while len(self._looks) > 1 and self._looks[1][0] <= now_ms - WINDOW_MS:
            self._looks.popleft()
        since_ms, before = self._looks[0]
        seconds = max(now_ms - since_ms, 1) / 1000
        rates = {name: (now - before.get(name, 0)) / seconds for name, now in counters.items()}
        if now_ms - self._looks[-1][0] >= APART_MS:
            self._looks.append((now_ms, dict(counters)))
        return rates
