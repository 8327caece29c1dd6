"""The only reader of the clock, and the only place that sets timers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from groupd.coordinator.core.types import Instant

elapsed_ns = time.perf_counter_ns
"""For durations that are only shown."""

thread_cpu_s = time.thread_time
"""CPU seconds of the calling thread."""


def monotonic_ms() -> int:
    """Real time that never goes back."""
    return time.monotonic_ns() // 1_000_000


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time as an injected dependency: tests and the harness bring their own."""

    def now(self) -> Instant: ...

    def monotonic_ms(self) -> int:
        """`now().monotonic_ms`, for those who ask often."""
        ...

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Run `callback` once, at or after `monotonic_ms`."""
        ...


class SystemClock:
    """Real time; timers run on the running event loop."""

    def now(self) -> Instant:
        return Instant(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> TimerHandle:
        delay_ms = monotonic_ms - time.monotonic_ns() // 1_000_000
        # A millisecond late rather than early: an early timer finds nothing due and comes again.
        return asyncio.get_running_loop().call_later(max(0, delay_ms + 1) / 1000, callback)
