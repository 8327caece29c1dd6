"""The computation of a target that comes later, as its group knows it (see `deferred_target`)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.coordinator.core.types import Instant, Outcome

STALE_MS = 30_000
"""A computation that has not moved for so long has been lost: its records were refused."""

RETRY_MS = 1000
"""After a failure of the assignor nothing is computed for so long."""


class Computation:
    """One target of one group. `touched_ms`: when it last moved; `failed`: by its assignor."""

    __slots__ = ("failed", "steps", "touched_ms")

    def __init__(self, steps: Generator[Outcome, Instant, None], now: Instant) -> None:
        self.steps = steps
        self.touched_ms = now.monotonic_ms
        self.failed = False

    def holds_back(self, now: Instant) -> bool:
        """Whether nobody else may start."""
        patience_ms = RETRY_MS if self.failed else STALE_MS
        return now.monotonic_ms < self.touched_ms + patience_ms
