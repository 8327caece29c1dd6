"""Writes that take too long: their requests are refused, though they may still commit."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from groupd.coordinator.runtime.alarm import Alarm
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.journal import Journal
from groupd.coordinator.runtime.waiting import WaitingRequests

log = structlog.get_logger("groupd.shard")


class CommitTimeout:
    """Watches over what waits in a shard's journal; `journal()` is the one in use."""

    __slots__ = ("_alarm", "_clock", "_journal", "_partition", "_timeout_ms", "_waiting")

    def __init__(
        self,
        clock: Clock,
        timeout_ms: int,
        waiting: WaitingRequests,
        partition: int,
        journal: Callable[[], Journal],
    ) -> None:
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting = waiting
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
            self._waiting.time_out(replies)
        self.arm()
