"""TransactionShard: some of the transactional ids, with their log and the ends of their
transactions. It is what one node of a cluster serves at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.transactions.markers import MarkerSender
from groupd.coordinator.transactions.metadata import PREPARED, Change, TransactionState
from groupd.coordinator.transactions.state_log import StateLog, TransactionShardParts
from groupd.coordinator.transactions.trimmer import Trimmer
from groupd.storage.units import OwnedUnit

_COUNTED = {
    TransactionState.COMPLETE_COMMIT: "committed",
    TransactionState.COMPLETE_ABORT: "aborted",
    TransactionState.DEAD: "expired",
}


class TransactionShard(StateLog):
    """To end it: `close`, then `closed` and `ended`; or `written`, for another node that takes
    over; or `drop`."""

    def __init__(
        self, number: int, shared: TransactionShardParts, owned: OwnedUnit | None = None
    ) -> None:
        super().__init__(number, shared, owned)
        self.markers = MarkerSender(self, shared.markers, self.clock, shared.marker_counts)
        self.trimmer = Trimmer(self, shared.logs)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def active(self) -> bool:
        return self.state is CoordinatorState.ACTIVE

    @property
    def busy(self) -> bool:
        """Whether something runs for which `ended` waits."""
        return bool(self._tasks) or self.markers.under_way

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that ends with the shard."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Ends -----------------------------------------------------------------------------------

    async def ended(self) -> None:
        """Wait after `close` until nothing of the shard runs; markers under way may be written,
        for a moment."""
        await self.markers.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def written(self) -> None:
        """Wait, too, until nothing of the shard writes any more. The next owner writes the markers
        of transactions that are not complete."""
        await super().written()
        await self.markers.close(0)
        # They end by themselves. One that is cut short might still cut the log behind the next
        # owner's back.
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def drop(self) -> None:
        super().drop()
        self.markers.cancel()
        for task in self._tasks:
            task.cancel()

    # The log's side -------------------------------------------------------------------------

    def on_active(self) -> None:
        for transactional_id in self.table.prepared():
            self.markers.begin(transactional_id)
        self._shared.on_loaded()

    def on_applied(self, change: Change) -> None:
        state = TransactionState.DEAD if change.metadata is None else change.metadata.state
        if state in PREPARED:
            if self.active:  # else the next start does it
                self.markers.begin(change.transactional_id)
        else:
            self._shared.on_settled(change.transactional_id)
        if (counted := _COUNTED.get(state)) is not None:
            self._shared.counts[counted] += 1
        if self.active and self.trimmer.due():
            self.spawn(self.trimmer.trim())
