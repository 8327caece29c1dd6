"""Serves the shards of groups that this node owns, and gives them up: a broker's `UnitHost`."""

from __future__ import annotations

from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.storage.units import OwnedUnit, Unit


class ShardHost:
    """See `groupd.coordinator.runtime.ownership.UnitHost`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def serve(self, unit: Unit, epoch: int) -> None:
        """Until the shard is loaded, requests for it get COORDINATOR_LOAD_IN_PROGRESS."""
        await self._broker.take(unit.number, OwnedUnit(unit, epoch)).load_first()

    async def give_up(self, unit: Unit) -> None:
        """What waits in the groups gets NOT_COORDINATOR; what was accepted becomes durable and is
        answered."""
        shard = self._shard(unit)
        if shard is not None:
            shard.close()
            await shard.closed()
            await shard.written()
            self._broker.leave(shard)

    def drop(self, unit: Unit) -> None:
        shard = self._shard(unit)
        if shard is not None:
            shard.drop()
            self._broker.leave(shard)

    def _shard(self, unit: Unit) -> ShardRuntime | None:
        place = self._broker.places[unit.number]
        return place if isinstance(place, ShardRuntime) else None
