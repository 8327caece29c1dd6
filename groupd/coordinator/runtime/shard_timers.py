"""The two timers of a shard: its earliest deadline, and writes that take too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.coordinator.runtime.journal import Journal
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import time_out

log = structlog.get_logger("groupd.shard")

EXPIRED_AT_ONCE = 10
"""Deadlines handled in one go, a millisecond or two, so that others have their turn when thousands
of members have died at once. A number, not a time, so that a recording can be replayed."""

EXPIRE_RETRY_MS = 500
"""A deadline whose handling failed (a bug) comes again: a member must not live for ever."""


class Timed(Protocol):
    """The deadlines of a machine (`machine.Machine`)."""

    def next_deadline(self) -> int | None: ...

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]: ...

    def retry(self, key: DeadlineKey, at_ms: int) -> None: ...


class Serving(Protocol):
    """The shard at work, as far as its timer needs it."""

    @property
    def machine(self) -> Timed: ...

    state: CoordinatorState


class ShardDeadlines:
    """The timer of a shard, at the earliest of its deadlines. `expire(key, now)` handles a
    deadline; False if it failed."""

    __slots__ = ("_alarm", "_clock", "_expire", "_serving")

    def __init__(
        self, clock: Clock, serving: Serving, expire: Callable[[DeadlineKey, Instant], bool]
    ) -> None:
        self._clock = clock
        self._serving = serving
        self._expire = expire
        self._alarm = Alarm(clock, self._on_due)

    @property
    def at_ms(self) -> int | None:
        """When the timer rings; None while it is off."""
        return self._alarm.at_ms

    def arm(self) -> None:
        if self._serving.state is not CoordinatorState.ACTIVE:
            return
        at_ms = self._serving.machine.next_deadline()
        if at_ms is not None:
            self._alarm.at_latest(at_ms)

    def cancel(self) -> None:
        self._alarm.cancel()

    def _on_due(self) -> None:
        if self._serving.state is not CoordinatorState.ACTIVE:
            return
        machine, now = self._serving.machine, self._clock.now()
        # Only up to the time of the alarm: heartbeats that came later may not have been read yet.
        for key in machine.pop_due(self._alarm.rang_for_ms, EXPIRED_AT_ONCE):
            if not self._expire(key, now):
                machine.retry(key, now.monotonic_ms + EXPIRE_RETRY_MS)
        self.arm()


class CommitTimeout:
    """Refuses the requests of writes that wait in the journal for longer than `timeout_ms`; the
    writes may still commit. `journal()` is the one in use."""

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
        if self._alarm.at_ms is None and (oldest := self._journal().oldest_ms()) is not None:
            self._alarm.at_latest(oldest + self._timeout_ms)

    def cancel(self) -> None:
        self._alarm.cancel()

    def _on_timeout(self) -> None:
        before = self._clock.now().monotonic_ms - self._timeout_ms + 1
        for replies in self._journal().overdue(before):
            log.warning("write timed out", shard=self._partition, replies=len(replies))
            time_out(replies)
        self.arm()
