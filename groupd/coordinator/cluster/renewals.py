"""Renewals of the lease that were answered. Each counts once the changes of the catalogue that its
answer told of are applied here: so a node that answers has every change that is older than a lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from groupd.coordinator.cluster.lease import Moment
from groupd.storage.log import LogError

log = structlog.get_logger("groupd.cluster")

KEPT_MAX = 100
"""Answered renewals that wait for changes to be applied; the oldest of more are of no use."""

BEHIND_LEASES = 3
"""After so many leases without a renewal that counts, others had better serve the units. Time in
which this process stood still does not count: it could not catch up then."""


class CannotFollow(Exception):
    """The database answers, but what has changed in the catalogue cannot be applied here."""


class FollowedCatalogue(Protocol):
    """The catalogue of this node, which follows that of the cluster."""

    @property
    def applied(self) -> int:
        """The version that this node works with."""
        ...

    async def catch_up(self) -> None:
        """Read and apply what has changed. Raises LogError."""
        ...

    def forget(self) -> None:
        """Nothing is applied any more: all is to be read again."""
        ...


class Renewals:
    """`renewed(sent)` is called for a renewal that counts, `caught_up()` when changes were
    applied."""

    def __init__(
        self,
        lease_ms: int,
        catalogue: FollowedCatalogue,
        renewed: Callable[[Moment], None],
        caught_up: Callable[[], None],
    ) -> None:
        self._lease_ns = lease_ms * 1_000_000
        self._behind: Moment | None = None
        """Since when no renewal has counted, although they are answered."""
        self._catalogue = catalogue
        self._renewed = renewed
        self._caught_up = caught_up
        self._answered: list[tuple[int, Moment]] = []
        self._task: asyncio.Task[None] | None = None

    def answered(self, version: int, sent: Moment) -> None:
        """A renewal that was sent then has told of this version of the catalogue. Raises
        CannotFollow."""
        self._answered.append((version, sent))
        del self._answered[:-KEPT_MAX]
        self._count()
        if not self._answered:
            return
        # While this node is behind the renewal before is in the list, too.
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
        """The database does not answer, so nobody can say that this node is behind for long."""
        self._behind = None

    def forget(self) -> None:
        """None of the renewals so far counts any more."""
        self._answered.clear()
        self._behind = None

    def close(self) -> None:
        """Stop to catch up."""
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
