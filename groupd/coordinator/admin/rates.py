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
"""Readings that follow each other faster than this are not remembered."""


class Beginning:
    """A moment, in time of the clock and in processor time of the calling thread."""

    __slots__ = ("cpu_s", "monotonic_ms")

    def __init__(self, clock: Clock) -> None:
        self.monotonic_ms = clock.now().monotonic_ms
        self.cpu_s = thread_cpu_s()


class Rates:
    """Per-second rates of named counters, all of them 0 at `start_ms`."""

    def __init__(self, start_ms: int) -> None:
        self._looks: deque[tuple[int, Mapping[str, float]]] = deque([(start_ms, {})])

    def look(self, now_ms: int, counters: Mapping[str, float]) -> dict[str, float]:
        """The rates over the last minute; if the last reading is older, since that reading."""
        while len(self._looks) > 1 and self._looks[1][0] <= now_ms - WINDOW_MS:
            self._looks.popleft()
        since_ms, before = self._looks[0]
        seconds = max(now_ms - since_ms, 1) / 1000
        rates = {name: (now - before.get(name, 0)) / seconds for name, now in counters.items()}
        if now_ms - self._looks[-1][0] >= APART_MS:
            self._looks.append((now_ms, dict(counters)))
        return rates
