"""Timers at the earliest of several times: of the deadlines of a shard, and of writes that take too
long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.coordinator.runtime.journal import Journal
from groupd.coordinator.runtime.waiting import time_out

log = structlog.get_logger("groupd.shard")

EXPIRED_AT_ONCE = 10
"""How many deadlines are handled in one go, which takes a millisecond or two. Other work gets a
turn in between when thousands of members have died at once. It is a number, not a time, so that a
recording can be replayed."""

EXPIRE_RETRY_MS = 500
"""After this time a deadline is handled again if that has failed (a bug): a member must not live
for ever."""


class DeadlineQueue(Protocol):
    """Deadlines, each with a key: a `Deadlines`, or a `machine.Machine` that keeps one."""

    def next_deadline(self) -> int | None: ...

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]: ...

    def retry(self, key: DeadlineKey, at_ms: int) -> None: ...


class DeadlineTimer:
    """Rings at the earliest of the deadlines of `running()`, and handles those that are due. While
    `running()` is None no deadline passes. `expire(key, now)` handles a deadline. It returns False
    if that failed, and the deadline is handled again later."""

    __slots__ = ("_alarm", "_clock", "_expire", "_running")

    def __init__(
        self,
        clock: Clock,
        running: Callable[[], DeadlineQueue | None],
        expire: Callable[[DeadlineKey, Instant], bool],
    ) -> None:
        self._clock = clock
        self._running = running
        self._expire = expire
        self._alarm = Alarm(clock, self._on_due)

    @property
    def at_ms(self) -> int | None:
        """When the timer rings, in monotonic ms; None while it is off."""
        return self._alarm.at_ms

    def arm(self) -> None:
        deadlines = self._running()
        if deadlines is None:
            return
        at_ms = deadlines.next_deadline()
        if at_ms is not None:
            self._alarm.at_latest(at_ms)

    def cancel(self) -> None:
        self._alarm.cancel()

    def _on_due(self) -> None:
        deadlines, now = self._running(), self._clock.now()
        if deadlines is None:
            return
        # Only deadlines up to the time of the alarm: heartbeats that came later may not have been
        # read yet.
        for key in deadlines.pop_due(self._alarm.rang_for_ms, EXPIRED_AT_ONCE):
            if self._running() is not deadlines:
                return  # the deadline before has stopped the shard
            if not self._expire(key, now):
                deadlines.retry(key, now.monotonic_ms + EXPIRE_RETRY_MS)
        self.arm()


class CommitTimeout:
    """Refuses the requests whose records wait in the journal for longer than `timeout_ms`. The
    records may still be committed. `journal()` returns the journal that is in use."""

    __slots__ = ("_alarm", "_clock", "_journal", "_partition", "_timeout_ms")

    def __init__(
        self, clock: Clock, timeout_ms: int, partition: int, journal: Callable[[], Journal]
    ) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._partition = partition
        self._journal = journal
        self._alarm = Alarm(clock, self._on_timeout)

    def arm(self) -> None:
        if not self._alarm.on and (oldest := self._journal().oldest_ms()) is not None:
            self._alarm.at_latest(oldest + self._timeout_ms)

    def cancel(self) -> None:
        self._alarm.cancel()

    def _on_timeout(self) -> None:
        before = self._clock.now().monotonic_ms - self._timeout_ms + 1
        for waiters in self._journal().overdue(before):
            log.warning("write timed out", shard=self._partition, requests=len(waiters))
            time_out(waiters)
        self.arm()
