"""What the coordinator takes from the system: time and random ids. `Clock` is what a clock is, and
`SystemClock` the real one. A daemon runs by the one of `groupd.coordinator.runtime.heard_clock`,
which leaves out the pauses of its process. The ids are the only source of entropy."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicId

elapsed_ns = time.perf_counter_ns
"""The clock by which durations are measured, in nanoseconds."""

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


async def pause(clock: Clock, delay_ms: int) -> None:
    """Wait by the coordinator's clock."""
    if delay_ms == 0:
        return
    over = asyncio.Event()
    timer = clock.call_at(clock.now().monotonic_ms + delay_ms, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


class Alarm:
    """Calls `ring()` once the time has come; it is off while `ring` runs and may be set there."""

    __slots__ = ("_at_ms", "_clock", "_handle", "_ring")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_ms = 0
        self._handle: TimerHandle | None = None

    @property
    def rang_for_ms(self) -> int:
        """The time, in monotonic ms, for which it was set when it last rang."""
        return self._at_ms

    @property
    def at_ms(self) -> int | None:
        """When it rings; None while it is off."""
        return None if self._handle is None else self._at_ms

    def at_latest(self, monotonic_ms: int) -> None:
        """Ring at `monotonic_ms` or before: a time that is set and earlier stays."""
        if self._handle is not None:
            if self._at_ms <= monotonic_ms:
                return
            self._handle.cancel()
        self._at_ms = monotonic_ms
        self._handle = self._clock.call_at(monotonic_ms, self._fire)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._ring()


def new_id() -> str:
    """A random UUID as 36 characters."""
    return str(uuid.uuid4())


def new_topic_id() -> TopicId:
    """A random topic id. Kafka's own ids never start with "-" in base64url, which breaks
    command lines, so neither do these."""
    while True:
        raw = uuid.uuid4().bytes
        if raw[0] >> 2 != 62:
            return raw
