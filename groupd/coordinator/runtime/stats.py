"""Durations of frequent operations. The last values are kept, and made into percentiles when
metrics are scraped.

Adding a value is one append to a bounded deque (some 30 ns); sorting happens at the scrape.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

VALUES_KEPT = 4096
NS_PER_MS = 1_000_000
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


class Durations:
    """The last `VALUES_KEPT` durations of one kind, in ns. `add(ns)` adds one."""

    __slots__ = ("_values", "add")

    def __init__(self) -> None:
        self._values: deque[int] = deque(maxlen=VALUES_KEPT)
        self.add = self._values.append

    def quantiles(self) -> Mapping[str, float]:
        """Returns ms by "max", "p50", "p95", "p99", "p999" (nearest rank); all 0 without values."""
        values = sorted(self._values) or [0]
        last = len(values) - 1
        found = {"max": values[last] / NS_PER_MS}
        for name, share in SHARES.items():
            rank = -int(-share * len(values) // 1) - 1
            found[name] = values[min(max(rank, 0), last)] / NS_PER_MS
        return found


class WriterStats:
    """What group commit costs for the logs of coordinators, without the logs of topics. `linger`:
    from the first waiting record of a log to the start of the transaction that takes it. `flush`:
    the transaction and the answers. `purgatory`: both together, which is how long a request
    waits."""

    __slots__ = ("flush", "flushes", "linger", "purgatory")

    def __init__(self) -> None:
        self.linger = Durations()
        self.flush = Durations()
        self.purgatory = Durations()
        self.flushes = 0
