"""This node's own view of its lease: when it stops to answer, whatever the database says later.

The lease is counted from the moment before its renewal was sent, so it ends here before it ends in
the database, and a margin makes up for clocks of different speed. Time in which the machine was
suspended counts. A machine that goes on from a snapshot may have a clock that has stood still; then
the wall clock jumps once somebody sets it, and so ends the lease too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

MARGIN_MIN_MS = 100
_NS_PER_MS = 1_000_000
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_ns() -> int:
    """A clock that never goes back and, where the system has one, counts time of suspension."""
    return time.clock_gettime_ns(_BOOTTIME)


class Moment(NamedTuple):
    """A moment by both clocks, in nanoseconds."""

    elapsed_ns: int
    wall_ns: int


class NodeLease:
    """`lease_ms`: how long the database gives. The clocks are for tests."""

    def __init__(
        self,
        lease_ms: int,
        elapsed_ns: Callable[[], int] = since_boot_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.lease_ms = lease_ms
        usable_ms = lease_ms - max(lease_ms // 10, min(MARGIN_MIN_MS, lease_ms // 2))
        self._usable_ns = usable_ms * _NS_PER_MS
        self._elapsed_ns = elapsed_ns
        self._wall_ns = wall_ns
        self._from = self._until = self._wall_until = 0
        self._since: int | None = None

    def now(self) -> Moment:
        """To be taken before a renewal is sent."""
        return Moment(self._elapsed_ns(), self._wall_ns())

    def renewed(self, sent: Moment) -> None:
        """A renewal that was sent then has succeeded. Renewals may be told of in any order."""
        if sent.elapsed_ns <= self._from:
            return
        if not self.valid():
            self._since = self._elapsed_ns()
        self._from = sent.elapsed_ns
        self._until = sent.elapsed_ns + self._usable_ns
        self._wall_until = sent.wall_ns + self._usable_ns

    def end(self) -> None:
        """Nothing may be answered any more until the next renewal that is sent from now on."""
        self._from = self._elapsed_ns()
        self._until = self._wall_until = 0

    def valid(self) -> bool:
        """Whether this node may answer now."""
        return self._elapsed_ns() < self._until and self._wall_ns() < self._wall_until

    @property
    def left_ms(self) -> int:
        """How long it is still valid; not above 0 if it is not."""
        elapsed_ns = self._until - self._elapsed_ns()
        return min(elapsed_ns, self._wall_until - self._wall_ns()) // _NS_PER_MS

    @property
    def age_ms(self) -> int:
        """How long ago the renewal was sent that this lease comes from."""
        return (self._elapsed_ns() - self._from) // _NS_PER_MS

    @property
    def held_ms(self) -> int:
        """How long it has been valid without a gap; 0 if it is not."""
        if self._since is None or not self.valid():
            return 0
        return (self._elapsed_ns() - self._since) // _NS_PER_MS
