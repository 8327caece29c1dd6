"""Leads the partitions of topics in the buckets that this node owns: the `UnitHost` of topics."""

from __future__ import annotations

from groupd.coordinator.topics.appends import Appends
from groupd.coordinator.topics.partitions import Partitions
from groupd.storage.units import Unit


class PartitionHost:
    """See `groupd.coordinator.runtime.ownership.UnitHost`."""

    def __init__(self, partitions: Partitions, appends: Appends) -> None:
        self._partitions = partitions
        self._appends = appends

    async def serve(self, unit: Unit, epoch: int) -> None:
        """Nothing is read: a partition is opened when it is used for the first time."""

    async def give_up(self, unit: Unit) -> None:
        """What was accepted becomes durable and is answered; readers that wait are told to look for
        the leader."""
        await self._appends.settled()
        await self._partitions.forget(unit)

    def drop(self, unit: Unit) -> None:
        self._partitions.drop_unit(unit)
