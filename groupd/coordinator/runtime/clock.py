"""What the coordinator takes from the system: time and random ids.

`Clock` is the interface, and `SystemClock` the real clock. A daemon uses the clock of
`groupd.coordinator.runtime.pause_aware_clock`, which leaves out the pauses of its process. The ids
are the only source of entropy.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicId

elapsed_ns = time.perf_counter_ns
"""The clock that measures durations, in nanoseconds."""

thread_cpu_s = time.thread_time
"""CPU seconds of the calling thread."""


def monotonic_ms() -> int:
    """Real time that never goes back."""
    return time.monotonic_ns() // 1_000_000


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    """A source of time that is passed in: tests and the harness use their own."""

    def now(self) -> Instant: ...

    def monotonic_ms(self) -> int:
        """`now().monotonic_ms`, for callers that ask often."""
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
        # Rather a millisecond late than early: an early timer finds nothing due and must be set
        # again.
        return asyncio.get_running_loop().call_later(max(0, delay_ms + 1) / 1000, callback)


async def pause(clock: Clock, delay_ms: int) -> None:
    if delay_ms == 0:
        return
    over = asyncio.Event()
    timer = clock.call_at(clock.now().monotonic_ms + delay_ms, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


class Alarm:
    """Calls `ring()` at a given time. The alarm is off while `ring` runs, and `ring` may set it
    again."""

    __slots__ = ("_at_ms", "_clock", "_handle", "_ring", "on")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_ms = 0
        self._handle: TimerHandle | None = None
        self.on = False
        """Whether the alarm is set."""

    @property
    def rang_for_ms(self) -> int:
        """The time, in monotonic ms, for which the alarm was set when it last rang."""
        return self._at_ms

    @property
    def at_ms(self) -> int | None:
        """When the alarm rings, in monotonic ms; None while it is off."""
        return self._at_ms if self.on else None

    def at_latest(self, monotonic_ms: int) -> None:
        """Ring at `monotonic_ms` or earlier: an alarm that is already set to an earlier time stays
        so."""
        if self._handle is not None:
            if self._at_ms <= monotonic_ms:
                return
            self._handle.cancel()
        self._at_ms, self.on = monotonic_ms, True
        self._handle = self._clock.call_at(monotonic_ms, self._fire)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle, self.on = None, False

    def _fire(self) -> None:
        self._handle, self.on = None, False
        self._ring()


def new_id() -> str:
    """A random UUID as 36 characters."""
    return str(uuid.uuid4())


def new_topic_id() -> TopicId:
    """Returns a random topic id. Kafka's own ids never start with "-" in base64url, which breaks
    command lines, so neither do these."""
    while True:
        raw = uuid.uuid4().bytes
        if raw[0] >> 2 != 62:
            return raw
