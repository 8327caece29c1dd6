"""The shards of groups of this node, in a list that has every shard of the cluster."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.served_shards import ServedShards
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.coordinator.runtime.shard_state import ForeignShard
from groupd.storage.units import OwnedUnit

Shard = ShardRuntime | ForeignShard


class GroupShards(ServedShards[ShardRuntime]):
    """`count`: of all shards, here or elsewhere."""

    def __init__(self, count: int, make: Callable[[int, OwnedUnit | None], ShardRuntime]) -> None:
        super().__init__("shards", make)
        self.in_order: list[ShardRuntime] = []
        """The shards of this process, by partition. The list itself stays the same."""
        self.places: list[Shard] = [ForeignShard(number) for number in range(count)]
        """All shards, by partition; those of other nodes are `ForeignShard`s."""

    def take(self, number: int, owned: OwnedUnit | None = None) -> ShardRuntime:
        shard = self.places[number] = super().take(number, owned)
        insort(self.in_order, shard, key=lambda one: one.partition)
        return shard

    def leave(self, shard: ShardRuntime) -> None:
        if self.places[shard.partition] is shard:
            self.places[shard.partition] = ForeignShard(shard.partition)
            self.in_order.remove(shard)
        super().leave(shard)

    def clean_offsets(self, partition: int) -> tuple[int, int]:
        """How far the history has been folded, and up to where the compacted log stands for it."""
        shard = self.by_number.get(partition)
        opened = None if shard is None else shard.log
        return (0, 0) if opened is None else (opened.history.clean_offset, opened.compacted_end)

    def producers(self, partition: int) -> ProducerStates | None:
        """The producers of the shard's log and their transactions; None while it does not serve."""
        return None if self.state(partition) is None else self.by_number[partition].producers
