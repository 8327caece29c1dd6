"""The shards of one coordinator that this node serves: how it takes them and gives them up, and
what other parts may see of their logs.

Few brokers use most of their shards. A shard whose log was empty at the start rests until somebody
asks for it. It is made then, as it would have been at the start.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.log_shard import LogShard
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.runtime.shard_state import AbsentShard, CoordinatorState
from groupd.storage.units import OwnedUnit, Unit

S = TypeVar("S", bound=LogShard[Any])


class ServedShards(Generic[S]):
    """The `UnitServer` of a coordinator's units (`runtime.ownership`), and the `CoordinatorLogView`
    of its topic (`topics.coordinator_logs`).

    `name`: what the shards are called in messages. `make(number, owned)`: returns a shard that is
    not loaded yet; `owned` is its unit in a cluster. The shard must call `wake` whenever its high
    watermark moves or its state changes. `unopened`: the shards that this node serves from the
    start, until `load` or `rest` is called for them.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[int, OwnedUnit | None], S],
        unopened: Iterable[int] = (),
    ) -> None:
        self.name = name
        self.by_number: dict[int, S] = {}
        """The shards that were made. `get` makes those that rest."""
        self.unopened = set(unopened)
        self._resting: set[int] = set()
        self._begin: Callable[[S], None]
        self._make = make
        self._waiting: dict[int, set[asyncio.Event]] = {}

    def take(self, number: int, owned: OwnedUnit | None = None) -> S:
        """Make a shard that this node serves from now on. It is not loaded yet."""
        shard = self.by_number[number] = self._make(number, owned)
        return shard

    async def load(self, number: int, opened: Any) -> None:
        """Make and load an unopened shard. `opened`: see `LogShard.read_log`."""
        if number in self.unopened:  # else they were closed meanwhile
            self.unopened.remove(number)
            await self.take(number).load_first(opened)

    def rest(self, numbers: Iterable[int], begin: Callable[[S], None]) -> None:
        """Let unopened shards rest: their logs are open and empty. `begin(shard)`: lets a shard
        that was made serve at once."""
        self._begin = begin
        self._resting = self.unopened.intersection(numbers)
        self.unopened -= self._resting

    def get(self, number: int) -> S | None:
        """Returns a shard; one that rests is made. None: this node does not serve it, or not
        yet."""
        if number in self._resting:
            self._resting.remove(number)
            self._begin(self.take(number))
        return self.by_number.get(number)

    def close_unmade(self) -> None:
        """Give up the shards that were not made."""
        self.unopened.clear()
        self._resting.clear()
        for number in self._waiting:
            self.wake(number)

    def absence(self, number: int) -> CoordinatorState:
        """The state of a shard that `get` does not return."""
        return CoordinatorState.LOADING if number in self.unopened else CoordinatorState.CLOSED

    def leave(self, shard: S) -> None:
        """Remove a closed shard, which another node serves from now on."""
        if self.by_number.get(shard.partition) is shard:
            del self.by_number[shard.partition]

    @property
    def states(self) -> list[CoordinatorState]:
        """The states of all shards of this node, also of those that were not made."""
        made = [one.state for one in self.by_number.values()]
        made += len(self.unopened) * [CoordinatorState.LOADING]
        return made + len(self._resting) * [CoordinatorState.ACTIVE]

    @property
    def loading(self) -> int:
        """How many shards do not serve yet."""
        return sum(state is not CoordinatorState.ACTIVE for state in self.states)

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
        if partition in self._resting:
            return 0, 0
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


Shard = GroupLogShard | AbsentShard


class GroupShards(ServedShards[GroupLogShard]):
    """The shards of groups."""

    def __init__(
        self, make: Callable[[int, OwnedUnit | None], GroupLogShard], unopened: Iterable[int] = ()
    ) -> None:
        super().__init__("shards", make, unopened)
        self.in_order: list[GroupLogShard] = []
        """The shards that were made, by partition. The list object itself stays the same."""

    def asked(self, number: int) -> Shard:
        """The same as `get`, with an `AbsentShard` for a shard that this process does not serve."""
        return self.get(number) or AbsentShard(number, self.absence(number))

    def take(self, number: int, owned: OwnedUnit | None = None) -> GroupLogShard:
        shard = super().take(number, owned)
        insort(self.in_order, shard, key=lambda one: one.partition)
        return shard

    def leave(self, shard: GroupLogShard) -> None:
        if self.by_number.get(shard.partition) is shard:
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
        shard = self.get(partition)
        if shard is None or shard.state is not CoordinatorState.ACTIVE:
            return None
        return shard.producers
