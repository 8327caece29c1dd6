"""TransactionShard: some of the transactional ids, with their log and the ends of their
transactions. One shard is a unit in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.transactions.markers import MarkerSender
from groupd.coordinator.transactions.metadata import PREPARED, TransactionChange, TransactionState
from groupd.coordinator.transactions.state_log import StateLog, TransactionShardParts
from groupd.storage.log import LogError, PartitionLogs
from groupd.storage.units import OwnedUnit

log = structlog.get_logger("groupd.transactions")

RECORDS_MIN = 10_000
RECORDS_PER_ID = 4
"""A log is trimmed when it has more than `RECORDS_MIN` records, and more than this many for each
id."""

CHUNK = 200
"""How many ids are handled before other work gets a turn."""


class Trimmer:
    """Trims the log: writes every id once more and cuts off the older records. `due()` is cheap;
    `trim()` is one pass."""

    __slots__ = ("_busy", "_failed_at", "_log", "_logs", "records_min")

    def __init__(self, state_log: StateLog, logs: PartitionLogs) -> None:
        self._log = state_log
        self._logs = logs
        self._busy = False
        self._failed_at = 0
        self.records_min = RECORDS_MIN

    def due(self) -> bool:
        # After a failed pass the next one waits until as many records are new: each pass writes
        # every id.
        records = self._log.durable_offset - max(self._log.start_offset, self._failed_at)
        ids = len(self._log.table.entries)
        return not self._busy and records > max(self.records_min, RECORDS_PER_ID * ids)

    async def trim(self) -> None:
        """Trim the log. If the log fails on the way, nothing is cut off."""
        self._busy = True
        try:
            await self._trim()
        except LogError as error:
            self._failed_at = self._log.durable_offset
            log.warning("the log cannot be trimmed", log=self._log.log_name, reason=str(error))
        finally:
            self._busy = False

    async def _trim(self) -> None:
        table, keep_from = self._log.table, self._log.durable_offset
        owner_epoch = self._log.owner_epoch
        old = [name for name, entry in table.entries.items() if entry.offset < keep_from]
        for start in range(0, len(old), CHUNK):
            if not self._log.serves(table):
                return
            for transactional_id in old[start : start + CHUNK]:
                entry = table.entries.get(transactional_id)
                if entry is not None and entry.offset < keep_from:
                    self._log.rewrite(transactional_id, entry.metadata)
            await asyncio.sleep(0)
        if not self._log.serves(table) or not await self._log.flushed():
            return
        await self._logs.truncate_before(self._log.log_name, keep_from, owner_epoch)
        if self._log.serves(table):
            self._log.start_offset = keep_from
        log.info(
            "log trimmed", log=self._log.log_name, from_offset=keep_from, ids=len(table.entries)
        )


_COUNTED = {
    TransactionState.COMPLETE_COMMIT: "committed",
    TransactionState.COMPLETE_ABORT: "aborted",
    TransactionState.DEAD: "expired",
}


class TransactionShard(StateLog):
    """A shard of transactional ids at work. To end it, call `close`, then `closed` and `ended`; or
    `close`, `closed` and `written` if another node takes over; or `drop`."""

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
        """Whether there is work for which `ended` waits."""
        return bool(self._tasks) or self.markers.under_way

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that ends with the shard."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Ends -----------------------------------------------------------------------------------

    async def ended(self) -> None:
        """Wait after `close` until no work of the shard runs. Markers under way get a moment to be
        written."""
        await self.markers.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def written(self) -> None:
        """Wait, too, until the shard writes nothing any more. The next owner writes the markers of
        transactions that are not complete."""
        await super().written()
        await self.markers.close(0)
        # The tasks end by themselves. A cancelled one might still trim the log while the next owner
        # has it.
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

    def on_applied(self, change: TransactionChange) -> None:
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
