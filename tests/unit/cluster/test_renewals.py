"""Renewals that are answered while what has changed in the catalogue is not applied yet."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.cluster.lease import BEHIND_LEASES, CannotFollow, Moment, Renewals
from groupd.storage.log import LogUnavailable

LEASE_MS = 1000


class Catalogue:
    """Applies version `newest` at the next `catch_up`, or cannot."""

    def __init__(self) -> None:
        self.applied = self.newest = 0
        self.fails = False

    async def catch_up(self) -> None:
        if self.fails:
            raise LogUnavailable("away")
        self.applied = self.newest

    def forget(self) -> None:
        self.applied = -1


def at(ms: int) -> Moment:
    return Moment(ms * 1_000_000, ms * 1_000_000)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_renewal_counts_once_its_changes_are_applied() -> None:
    catalogue, counted = Catalogue(), list[Moment]()
    renewals = Renewals(LEASE_MS, catalogue, counted.append, lambda: None)
    renewals.answered(0, at(1))
    assert counted == [at(1)]
    catalogue.newest = 1
    renewals.answered(1, at(2))
    assert counted == [at(1)]
    await settle()
    assert counted == [at(1), at(2)]


async def test_a_node_that_stays_behind_says_so() -> None:
    catalogue, counted = Catalogue(), list[Moment]()
    renewals = Renewals(LEASE_MS, catalogue, counted.append, lambda: None)
    catalogue.fails = True
    last_ms = BEHIND_LEASES * LEASE_MS
    for ms in range(0, last_ms + 1, 500):
        renewals.answered(1, at(ms))
        await settle()
    with pytest.raises(CannotFollow):
        renewals.answered(1, at(last_ms + 1))
    # It begins anew, and nothing of before counts.
    renewals.forget()
    renewals.answered(1, at(last_ms + 2))
    await settle()
    catalogue.fails, catalogue.newest = False, 1
    renewals.answered(1, at(last_ms + 3))
    await settle()
    assert counted == [at(last_ms + 2), at(last_ms + 3)]


async def test_time_in_which_the_database_was_away_does_not_count() -> None:
    catalogue = Catalogue()
    renewals = Renewals(LEASE_MS, catalogue, lambda _: None, lambda: None)
    catalogue.fails = True
    renewals.answered(1, at(0))
    renewals.failed()
    renewals.answered(1, at(BEHIND_LEASES * LEASE_MS + 1))
    await settle()


async def test_time_in_which_this_process_stood_still_does_not_count() -> None:
    catalogue = Catalogue()
    renewals = Renewals(LEASE_MS, catalogue, lambda _: None, lambda: None)
    catalogue.fails = True
    over_ms = BEHIND_LEASES * LEASE_MS + 1
    renewals.answered(1, at(0))
    for ms in range(over_ms, 2 * over_ms, 500):
        renewals.answered(1, at(ms))
        await settle()
    with pytest.raises(CannotFollow):
        renewals.answered(1, at(2 * over_ms))
