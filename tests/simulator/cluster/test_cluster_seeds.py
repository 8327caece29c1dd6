"""60 seeds of the cluster; `make sim-cluster SEEDS=10000` runs more. And what is left out on
purpose is found out: a check that never fails would show nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from groupd.coordinator.cluster.lease import Moment, NodeLease, Renewals
from groupd.coordinator.cluster.units import HeldUnits
from groupd.storage.units import (
    OwnedUnit,
)
from tests.simulator.cluster.database import Appended, Database, Session
from tests.simulator.cluster.simulation import simulate_cluster
from tests.simulator.simulation import SimulationFailed

SEEDS = range(60)
MUTANT_SEEDS = range(150)
"""Within these each mutant is found."""


@pytest.mark.parametrize("seed", SEEDS)
def test_cluster_seed(seed: int) -> None:
    result = simulate_cluster(seed)
    assert result.writes > 0
    assert result.reads > 0


def test_a_run_of_the_cluster_repeats_exactly() -> None:
    assert simulate_cluster(7).digest == simulate_cluster(7).digest


def never_over(patch: pytest.MonkeyPatch) -> None:
    """A node that does not count its lease by its own clock."""
    patch.setattr(NodeLease, "valid", lambda self: self._until > 0)


def counted_from_the_answer(patch: pytest.MonkeyPatch) -> None:
    """A lease that begins when the answer has come, and without a margin."""
    renewed = NodeLease.renewed

    def late(self: NodeLease, sent: Any) -> None:
        self._usable_ns = self.lease_ms * 1_000_000
        renewed(self, self.now())

    patch.setattr(NodeLease, "renewed", late)


def released_at_once(patch: pytest.MonkeyPatch) -> None:
    """A unit is released while it is still being given up."""

    def releasable(self: HeldUnits) -> list[OwnedUnit]:
        return [OwnedUnit(unit, one.epoch) for unit, one in self._held.items() if one.leaving]

    patch.setattr(HeldUnits, "releasable", property(releasable))
    patch.setattr(HeldUnits, "owns", HeldUnits.__contains__)


def counted_before_it_is_applied(patch: pytest.MonkeyPatch) -> None:
    """A renewal that counts although a change of the catalogue is not applied yet."""

    def answered(self: Renewals, version: int, sent: Moment) -> None:
        self._renewed(sent)
        self._task = self._task or asyncio.get_running_loop().create_task(self._catch_up())

    patch.setattr(Renewals, "answered", answered)


def robbed(patch: pytest.MonkeyPatch) -> None:
    """A plan that takes units from nodes whose lease lasts for two more seconds."""
    patch.setattr(Database, "is_over", lambda self, row: row.until_ms <= self.now_ms() + 2000)


def no_rest_after_a_promotion(patch: pytest.MonkeyPatch) -> None:
    """Units are given out while leases of the old server may last, by nodes that plan as soon as
    they see the new one."""
    patch.setattr(Database, "may_assign_units", lambda self: True)
    patch.setattr(NodeLease, "held_ms", 1_000_000)


def unfenced(patch: pytest.MonkeyPatch) -> None:
    """Logs that take appends from everybody."""

    async def anything(
        self: Session, owned: OwnedUnit, log_epoch: int, offset: int, value: str
    ) -> Appended:
        def work(database: Database) -> Appended:
            log = database.tables.logs[owned.unit]
            log.entries.append((owned.epoch, value))
            return Appended(True, database.tables.timeline)

        return await self.call(work)

    patch.setattr(Session, "append", anything)


MUTANTS: Sequence[Callable[[pytest.MonkeyPatch], None]] = (
    never_over,
    counted_from_the_answer,
    released_at_once,
    counted_before_it_is_applied,
    robbed,
    no_rest_after_a_promotion,
    unfenced,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_a_broken_rule_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(SimulationFailed):
        simulate_all(MUTANT_SEEDS)


def simulate_all(seeds: Sequence[int]) -> None:
    for seed in seeds:
        simulate_cluster(seed)
