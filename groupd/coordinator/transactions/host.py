"""Serves the shards of transactional ids that this node owns, and gives them up: the `UnitHost` of
transactions."""

from __future__ import annotations

from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.storage.units import OwnedUnit, Unit


class TransactionHost:
    """See `groupd.coordinator.runtime.ownership.UnitHost`."""

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    async def serve(self, unit: Unit, epoch: int) -> None:
        """Until the shard is loaded, requests for it get COORDINATOR_LOAD_IN_PROGRESS. Once it is,
        decided transactions get their markers."""
        await self._coordinator.take(unit.number, OwnedUnit(unit, epoch)).log.load_first()

    async def give_up(self, unit: Unit) -> None:
        """Changes that were accepted become durable, and their requests are answered."""
        shard = self._coordinator.shard(unit.number)
        if shard is not None:
            await shard.give_up()
            self._coordinator.leave(shard)

    def drop(self, unit: Unit) -> None:
        shard = self._coordinator.shard(unit.number)
        if shard is not None:
            shard.drop()
            self._coordinator.leave(shard)
