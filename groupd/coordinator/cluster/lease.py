"""This node's own view of its lease: when it must stop to answer, whatever the database says later.

The lease is counted from the moment before its renewal was sent, so it ends here before it ends in
the database. A margin makes up for clocks of different speed. Time in which the machine was
suspended counts. A machine that is resumed from a snapshot may have a clock that has stood still;
the wall clock jumps as soon as it is set again, and that ends the lease too.

The answer to a renewal has the version of the catalogue. The renewal counts once this node has
applied the changes up to that version. So a node that answers clients has every change that is
older than a lease.

`Notifier` wakes the callers that wait until this node may answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import structlog

from groupd.coordinator.runtime.clock import Clock
from groupd.storage.log import LogError

MARGIN_MIN_MS = 100
_NS_PER_MS = 1_000_000
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def since_boot_ns() -> int:
    """A clock that never goes back. Where the system has such a clock it also counts the time of
    suspension."""
    return time.clock_gettime_ns(_BOOTTIME)


class Moment(NamedTuple):
    """A moment by both clocks, in nanoseconds."""

    elapsed_ns: int
    wall_ns: int


class NodeLease:
    """Whether this node may answer, and for how long. `lease_ms`: how long a lease lasts in the
    database. Tests pass clocks of their own."""

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
        """Returns the moment that is passed to `renewed`. Call it before the renewal is sent."""
        return Moment(self._elapsed_ns(), self._wall_ns())

    def renewed(self, sent: Moment) -> None:
        """The renewal that was sent at this moment has succeeded. The order of the calls does not
        matter."""
        if sent.elapsed_ns <= self._from:
            return
        if not self.valid():
            self._since = self._elapsed_ns()
        self._from = sent.elapsed_ns
        self._until = sent.elapsed_ns + self._usable_ns
        self._wall_until = sent.wall_ns + self._usable_ns

    def end(self) -> None:
        """End the lease. Only a renewal that is sent from now on gives another one."""
        self._from = self._elapsed_ns()
        self._until = self._wall_until = 0

    def valid(self) -> bool:
        """Whether this node may answer now."""
        return self._elapsed_ns() < self._until and self._wall_ns() < self._wall_until

    @property
    def left_ms(self) -> int:
        """How much longer the lease is valid; 0 or less if it is not."""
        elapsed_ns = self._until - self._elapsed_ns()
        return min(elapsed_ns, self._wall_until - self._wall_ns()) // _NS_PER_MS

    @property
    def age_ms(self) -> int:
        """How long ago the renewal was sent that gave this lease."""
        return (self._elapsed_ns() - self._from) // _NS_PER_MS

    @property
    def held_ms(self) -> int:
        """How long the lease has been valid without a gap; 0 if it is not valid."""
        if self._since is None or not self.valid():
            return 0
        return (self._elapsed_ns() - self._since) // _NS_PER_MS


# Renewals -----------------------------------------------------------------------------------

log = structlog.get_logger("groupd.cluster")

KEPT_MAX = 100
"""How many answered renewals are kept that wait for changes to be applied. If there are more the
oldest are dropped."""

BEHIND_LEASES = 3
"""After so many leases without a renewal that counts, other nodes had better serve the units. Time
in which this process stood still is not included: it could not catch up then."""


class CannotFollow(Exception):
    """The database answers, but this node cannot apply the changes of the catalogue."""


class FollowedCatalogue(Protocol):
    """The catalogue of this node, which follows that of the cluster."""

    @property
    def applied(self) -> int:
        """The version of the catalogue that this node uses."""
        ...

    async def catch_up(self) -> None:
        """Read and apply the changes. Raises LogError."""
        ...

    def forget(self) -> None:
        """Forget which changes were applied: all must be read again."""
        ...


class Renewals:
    """Decides which renewals of the lease count. `renewed(sent)` is called for a renewal that
    counts, `caught_up()` when changes were applied."""

    def __init__(
        self,
        lease_ms: int,
        catalogue: FollowedCatalogue,
        renewed: Callable[[Moment], None],
        caught_up: Callable[[], None],
    ) -> None:
        self._lease_ns = lease_ms * 1_000_000
        self._behind: Moment | None = None
        """Since when renewals are answered, but none has counted."""
        self._catalogue = catalogue
        self._renewed = renewed
        self._caught_up = caught_up
        self._answered: list[tuple[int, Moment]] = []
        self._task: asyncio.Task[None] | None = None

    def answered(self, version: int, sent: Moment) -> None:
        """The renewal that was sent at `sent` was answered with this version of the catalogue.
        Raises CannotFollow."""
        self._answered.append((version, sent))
        del self._answered[:-KEPT_MAX]
        self._count()
        if not self._answered:
            return
        # If this node was behind already, the list also has the renewal before this one.
        if self._behind is None or self._gap_ns() > self._lease_ns:
            self._behind = sent
        if sent.elapsed_ns - self._behind.elapsed_ns > BEHIND_LEASES * self._lease_ns:
            raise CannotFollow
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(
                self._catch_up(), name="cluster-catalogue"
            )

    def _gap_ns(self) -> int:
        """The time between the last two renewals that wait for changes to be applied."""
        (_, before), (_, last) = self._answered[-2:]
        return last.elapsed_ns - before.elapsed_ns

    def failed(self) -> None:
        """The database does not answer, so it is not known any more for how long this node is
        behind."""
        self._behind = None

    def forget(self) -> None:
        """Count none of the renewals so far."""
        self._answered.clear()
        self._behind = None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _count(self) -> None:
        applied = self._catalogue.applied
        answered, self._answered = self._answered, []
        for version, sent in answered:
            if version <= applied:
                self._behind = None
                self._renewed(sent)
            else:
                self._answered.append((version, sent))

    async def _catch_up(self) -> None:
        try:
            await self._catalogue.catch_up()
        except LogError as error:
            log.warning("changes of the catalogue cannot be read", reason=str(error))
        except Exception:
            log.exception("changes of the catalogue cannot be applied")
        else:
            self._count()
            self._caught_up()


# Waiting callers ----------------------------------------------------------------------------


class Notifier:
    """`notify` wakes all callers of `wait`, in the order in which they came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[asyncio.Future[None], None] = {}

    async def wait(self, until_ms: int) -> None:
        """Wait until `notify` is called, but at most until `until_ms` (monotonic)."""
        if until_ms <= self._clock.monotonic_ms():
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_at(until_ms, lambda: _wake(told))
        self._waiting[told] = None
        try:
            await told
        finally:
            timer.cancel()
            del self._waiting[told]

    def notify(self) -> None:
        for told in list(self._waiting):
            _wake(told)


def _wake(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)
