"""The log of a shard of transactional ids at work: load, group commit, fail and reload.

States are those of a shard: LOADING -> ACTIVE; ACTIVE or LOADING -> FAILED -> LOADING; any ->
CLOSED. A change becomes true in memory when its record is durable, not before. If an append
fails, or its outcome is unknown, every waiting change is refused with NOT_COORDINATOR, memory is
dropped and the table is read from the log again, which also settles what was in doubt.

A shard whose log is empty takes over its ids from the log that there was before shards (`legacy`),
in one append, before it serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import structlog

from groupd.coordinator.core.slices import chunks
from groupd.coordinator.core.types import Completion
from groupd.coordinator.runtime.journal import (
    BATCH_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    Journal,
    measured,
)
from groupd.coordinator.runtime.reload import Reload
from groupd.coordinator.runtime.shard_state import REFUSALS, CoordinatorState
from groupd.coordinator.topics.names import transactions_log_name
from groupd.coordinator.transactions.log_records import to_record
from groupd.coordinator.transactions.metadata import Change, TransactionMetadata, TransactionState
from groupd.coordinator.transactions.replay import load_table
from groupd.coordinator.transactions.surroundings import Surroundings
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import Append, LogError, LogState
from groupd.storage.units import OwnedUnit

log = structlog.get_logger("groupd.transactions")

_FIRST_OWNER_EPOCH = 1
_OWNER = "transactions"

HEADROOM_BYTES = 64
"""What an open transaction leaves free, so that the records of its end always fit."""


class StateLog:
    """A `writer.Source`. `owned`: the shard's unit in a cluster. `on_loaded()`,
    `on_applied(change)` and `on_progress()` are called when the table has been read, when a change
    has become true, and whenever the high watermark moves or the state changes."""

    def __init__(
        self,
        number: int,
        around: Surroundings,
        on_loaded: Callable[[], None],
        on_applied: Callable[[Change], None],
        owned: OwnedUnit | None = None,
    ) -> None:
        self.number = number
        self.name = transactions_log_name(number)
        self.state = CoordinatorState.LOADING
        self.table = TransactionTable(around.config, around.ids_in_all)
        self.coordinator_epoch = -1
        """The coordinator epoch of markers: 0 at the first start, as in Kafka. It grows whenever
        the log changes hands, so that markers of a former owner are fenced."""
        self.start_offset = 0
        self.load_ms = self.loaded_records = 0
        self.owner_epoch = -1
        """That of the log; the store refuses what is written with an older one."""
        self._owned = owned
        self._around = around
        self._config = around.config
        self._clock = around.clock
        self._writer = around.writer
        self._on_loaded = on_loaded
        self._on_applied = on_applied
        self._journal = Journal(0, around.config.message_max_bytes)
        self._taken_from = self._journal
        self._reload = Reload(around.clock, self, "transactions", shard=number)
        self._flush_waiters: list[asyncio.Future[None]] = []

    @property
    def durable_offset(self) -> int:
        return self._journal.durable_offset

    def serving(self) -> TransactionTable:
        """The table. Raises ApiError while it cannot be asked."""
        if self.state is not CoordinatorState.ACTIVE:
            raise ApiError(REFUSALS[self.state])
        return self.table

    def serves(self, table: TransactionTable) -> bool:
        """Whether `table` is still in use. Work that began with another table is to end."""
        return self.table is table and self.state is CoordinatorState.ACTIVE

    # Loading ------------------------------------------------------------------------------

    async def load_first(self, opened: LogState | None = None) -> None:
        """The load at start; if it fails, the shard refuses and tries again, unless its log is
        damaged. `opened`: the log, if it is open already."""
        await self._reload.load_first(partial(self.load, opened))

    async def load(self, opened: LogState | None = None) -> None:
        """Raises LoadFailed or LogError."""
        started_ms = self._clock.now().monotonic_ms
        logs = self._around.logs
        opened = opened or await logs.open(self.name, self._owned)
        first_epoch = await self._around.legacy.epochs()
        table = TransactionTable(self._config, self._around.ids_in_all)
        journal = Journal(opened.next_offset, self._config.message_max_bytes)
        if opened.next_offset:
            loaded = await load_table(table, logs, opened)
        else:
            loaded = await self._take_over(table, journal, opened.owner_epoch)
        if self.state is CoordinatorState.CLOSED:
            return
        self.load_ms = self._clock.now().monotonic_ms - started_ms
        self.loaded_records = loaded
        self.coordinator_epoch = first_epoch + opened.owner_epoch - _FIRST_OWNER_EPOCH
        self._serve(opened, table, journal)

    def begin(self, opened: LogState) -> None:
        """Serve at once a log that is open and empty, where there is none from before shards."""
        self.coordinator_epoch = opened.owner_epoch - _FIRST_OWNER_EPOCH
        self._serve(opened, self.table, self._journal)

    def _serve(self, opened: LogState, table: TransactionTable, journal: Journal) -> None:
        self.table = table
        self.start_offset = opened.start_offset
        self.owner_epoch = opened.owner_epoch
        self._journal = journal
        self.state = CoordinatorState.ACTIVE
        self._wake()
        self._on_loaded()

    async def _take_over(self, table: TransactionTable, journal: Journal, owner_epoch: int) -> int:
        """Write what the log from before shards holds for this one. Raises as `load`. It is one
        append, so a process that dies leaves this log empty or complete."""
        now_ms = self._clock.now().monotonic_ms
        for some in chunks(await self._around.legacy.ids_of(self.number)):
            for transactional_id, metadata in some:
                table.replay(transactional_id, metadata, journal.next_offset)
                record = to_record(transactional_id, metadata)
                journal.accept(measured([record]), (transactional_id,), [], None, now_ms)
            await asyncio.sleep(0)
        if not journal.idle:
            await self._writer.append(self._taken(journal, owner_epoch))
            journal.durable()
            log.info("ids taken over", log=self.name, ids=len(table.entries))
        return journal.durable_offset

    def close(self) -> None:
        """Refuse everything from now on. What was accepted may still become durable."""
        self.state = CoordinatorState.CLOSED
        self._reload.cancel()
        self._wake()

    async def closed(self) -> None:
        """Wait after `close` until no load is under way."""
        await self._reload.ended()

    async def written(self) -> None:
        """Wait after `close` until what was accepted is durable and answered, or has failed."""
        while not self._journal.idle:
            await self._next_flush()

    def drop(self) -> None:
        """Refuse everything at once, also what waits to become durable: another node may have the
        shard."""
        self.close()
        self._lose()

    # Appends ------------------------------------------------------------------------------

    def append(self, change: Change) -> asyncio.Future[None]:
        """Make `change` durable, then true. The future fails with ApiError NOT_COORDINATOR if
        the log does. Raises ApiError UNKNOWN_SERVER_ERROR if its record is too large, which
        undoes it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_looked_at)
        record = to_record(change.transactional_id, change.metadata)
        size = (
            BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES + sum(len(part or b"") for part in record)
        )
        if _is_ongoing(change):
            size += HEADROOM_BYTES
        if size > self._config.message_max_bytes:
            self.table.refused(change)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._accept(change.transactional_id, record, Completion(_OWNER, (change, future)))
        return future

    def rewrite(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        """Write the present record of an id again, so that older ones are not needed any more."""
        self._accept(transactional_id, to_record(transactional_id, metadata), None)

    async def flushed(self) -> bool:
        """Wait until what was accepted is durable; False if the log failed."""
        table, end_offset = self.table, self._journal.next_offset
        while self.serves(table) and self._journal.durable_offset < end_offset:
            await self._next_flush()
        return self.serves(table)

    def _next_flush(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flush_waiters.append(waiter)
        return waiter

    def _wake(self) -> None:
        waiters, self._flush_waiters = self._flush_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._around.on_progress(self.number)

    def _accept(
        self,
        transactional_id: str,
        record: tuple[bytes, bytes | None],
        completion: Completion | None,
    ) -> None:
        self.table.entries[transactional_id].offset = self._journal.next_offset
        now_ms = self._clock.now().monotonic_ms
        self._journal.accept(measured([record]), (transactional_id,), [], completion, now_ms)
        self._writer.mark(self)

    def take(self) -> list[Append]:
        if self.state is CoordinatorState.FAILED:
            return []
        self._taken_from = self._journal
        return self._taken(self._journal, self.owner_epoch)

    def _taken(self, journal: Journal, owner_epoch: int) -> list[Append]:
        return [
            Append(self.name, owner_epoch, first, last, timestamp_ms, payload)
            for first, last, timestamp_ms, payload in journal.take(self._clock.now().wall_ms)
        ]

    def done(self, error: LogError | None) -> None:
        if self._taken_from is not self._journal:
            return  # the reload that replaced the journal has settled it
        if error is not None:
            self._fail(error)
            return
        for batch in self._journal.durable():
            for completion in batch.completions:
                change, future = completion.data
                self.table.applied(change)
                if not future.done():
                    future.set_result(None)
                self._on_applied(change)
        self._wake()

    def _fail(self, error: LogError) -> None:
        log.error("append failed", log=self.name, reason=str(error))
        if self.state is CoordinatorState.ACTIVE:
            self.state = CoordinatorState.FAILED
            self._reload.start(0)
        self._lose()
        self._wake()

    def _lose(self) -> None:
        """Changes that are not durable yet are given up."""
        for batch in self._journal.failed():
            for completion in batch.completions:
                _, future = completion.data
                if not future.done():
                    future.set_exception(ApiError(ErrorCode.NOT_COORDINATOR))


def _is_ongoing(change: Change) -> bool:
    return change.metadata is not None and change.metadata.state is TransactionState.ONGOING


def _looked_at(future: asyncio.Future[None]) -> None:
    """Look at the future's error, because nobody may await it any more; the program's log has the
    failure already."""
    if not future.cancelled():
        future.exception()
