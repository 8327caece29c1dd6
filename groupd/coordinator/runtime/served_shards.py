"""The shards of one coordinator that this node serves: how it takes them and gives them up, and
what other parts may see of their logs."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.log_shard import LogShard
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.runtime.shard_state import CoordinatorState, ForeignShard
from groupd.storage.units import OwnedUnit, Unit

S = TypeVar("S", bound=LogShard[Any])


class ServedShards(Generic[S]):
    """The `UnitServer` of a coordinator's units (`runtime.ownership`), and the `CoordinatorLogView`
    of its topic (`topics.coordinator_logs`).

    `name`: what the shards are called in messages. `make(number, owned)`: returns a shard that is
    not loaded yet; `owned` is its unit in a cluster. The shard must call `wake` whenever its high
    watermark moves or its state changes.
    """

    def __init__(self, name: str, make: Callable[[int, OwnedUnit | None], S]) -> None:
        self.name = name
        self.by_number: dict[int, S] = {}
        self._make = make
        self._waiting: dict[int, set[asyncio.Event]] = {}

    def take(self, number: int, owned: OwnedUnit | None = None) -> S:
        """Make a shard that this node serves from now on. It is not loaded yet."""
        shard = self.by_number[number] = self._make(number, owned)
        return shard

    def leave(self, shard: S) -> None:
        """Remove a closed shard, which another node serves from now on."""
        if self.by_number.get(shard.partition) is shard:
            del self.by_number[shard.partition]

    @property
    def loading(self) -> int:
        """How many shards do not serve yet."""
        return sum(one.state is not CoordinatorState.ACTIVE for one in self.by_number.values())

    @property
    def failed(self) -> list[str]:
        """The names of the logs whose shards could not be loaded."""
        shards = self.by_number.values()
        return [one.log_name for one in shards if one.state is CoordinatorState.FAILED]

    def not_ready(self) -> str | None:
        """Says why not all shards serve; None if they do."""
        if failed := self.failed:
            names = ", ".join(failed)
            return f"{len(failed)} {self.name} cannot be loaded, see the log: {names}"
        loading = self.loading
        return f"{loading} {self.name} are not active yet" if loading else None

    # Units of a cluster -------------------------------------------------------------------

    async def serve(self, unit: Unit, epoch: int) -> None:
        """Load the shard. Until it is loaded, requests for it get COORDINATOR_LOAD_IN_PROGRESS."""
        await self.take(unit.number, OwnedUnit(unit, epoch)).load_first()

    async def give_up(self, unit: Unit) -> None:
        """Close the shard. Requests that are parked in it get NOT_COORDINATOR. Records that were
        accepted become durable, and their requests are answered."""
        shard = self.by_number.get(unit.number)
        if shard is not None:
            shard.close()
            await shard.closed()
            await shard.written()
            self.leave(shard)

    def drop(self, unit: Unit) -> None:
        shard = self.by_number.get(unit.number)
        if shard is not None:
            shard.drop()
            self.leave(shard)

    # The logs as others see them ----------------------------------------------------------

    def state(self, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark); None while the shard does not serve here."""
        shard = self.by_number.get(partition)
        if shard is None or shard.state is not CoordinatorState.ACTIVE:
            return None
        return shard.start_offset, shard.durable_offset

    def clean_offsets(self, partition: int) -> tuple[int, int]:
        """(0, 0): the log is not cleaned, unless a subclass says so."""
        return 0, 0

    def producers(self, partition: int) -> ProducerStates | None:
        """None: no producer writes to the log, unless a subclass says so."""
        return None

    def add_waiter(self, partition: int, event: asyncio.Event) -> None:
        """Set `event` whenever the high watermark moves or the shard's state changes."""
        self._waiting.setdefault(partition, set()).add(event)

    def remove_waiter(self, partition: int, event: asyncio.Event) -> None:
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.discard(event)
            if not waiting:
                del self._waiting[partition]

    def wake(self, partition: int) -> None:
        for event in self._waiting.get(partition, ()):
            event.set()


Shard = GroupLogShard | ForeignShard


class GroupShards(ServedShards[GroupLogShard]):
    """The shards of groups. `count`: of all shards, on this node or on others."""

    def __init__(self, count: int, make: Callable[[int, OwnedUnit | None], GroupLogShard]) -> None:
        super().__init__("shards", make)
        self.in_order: list[GroupLogShard] = []
        """The shards of this process, by partition. The list object itself stays the same."""
        self.shards_by_partition: list[Shard] = [ForeignShard(number) for number in range(count)]
        """All shards, by partition; those of other nodes are `ForeignShard`s."""

    def take(self, number: int, owned: OwnedUnit | None = None) -> GroupLogShard:
        shard = self.shards_by_partition[number] = super().take(number, owned)
        insort(self.in_order, shard, key=lambda one: one.partition)
        return shard

    def leave(self, shard: GroupLogShard) -> None:
        if self.shards_by_partition[shard.partition] is shard:
            self.shards_by_partition[shard.partition] = ForeignShard(shard.partition)
            self.in_order.remove(shard)
        super().leave(shard)

    def clean_offsets(self, partition: int) -> tuple[int, int]:
        """How far the history has been cleaned, and up to which offset the compacted log stands for
        it."""
        shard = self.by_number.get(partition)
        opened = None if shard is None else shard.log
        return (0, 0) if opened is None else (opened.history.clean_offset, opened.compacted_end)

    def producers(self, partition: int) -> ProducerStates | None:
        """The producers of the shard's log and their transactions; None while it does not serve."""
        return None if self.state(partition) is None else self.by_number[partition].producers
