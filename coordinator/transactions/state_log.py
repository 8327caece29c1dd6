"""The coordinator's log at work: load, group commit, fail and reload.

States are those of a shard: LOADING -> ACTIVE; ACTIVE or LOADING -> FAILED -> LOADING; any ->
CLOSED. A change becomes true in memory when its record is durable, not before. If an append
fails, or its outcome is unknown, every waiting change is refused with NOT_COORDINATOR, memory is
dropped and the table is read from the log again, which also settles what was in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Completion
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.journal import (
    BATCH_OVERHEAD_BYTES,
    RECORD_OVERHEAD_BYTES,
    Journal,
    measured,
)
from groupd.coordinator.runtime.loader import LoadFailed, check_batches
from groupd.coordinator.runtime.reload import Reload
from groupd.coordinator.runtime.shard_state import REFUSALS, CoordinatorState
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.topics.names import TRANSACTIONS_LOG
from groupd.coordinator.transactions.log_records import from_value, to_record
from groupd.coordinator.transactions.metadata import Change, TransactionMetadata, TransactionState
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import CorruptBatch, iter_batches, iter_records
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.records.transaction_records import decode_key
from groupd.storage.log import Append, LogError, LogState, PartitionLogs

log = structlog.get_logger("groupd.transactions")

LOG_NAME = TRANSACTIONS_LOG
_FIRST_OWNER_EPOCH = 1
_OWNER = "transactions"
_READ_BYTES = 1024 * 1024

HEADROOM_BYTES = 64
"""What an open transaction leaves free, so that the records of its end always fit."""


class StateLog:
    """A `writer.Source`. `on_loaded()` and `on_applied(change)` are called when the table has
    been read, and when a change has become true."""

    def __init__(
        self,
        config: CoordinatorConfig,
        logs: PartitionLogs,
        writer: LogWriter,
        clock: Clock,
        on_loaded: Callable[[], None],
        on_applied: Callable[[Change], None],
    ) -> None:
        self.state = CoordinatorState.LOADING
        self.table = TransactionTable(config)
        self._owner_epoch = _FIRST_OWNER_EPOCH
        self.start_offset = 0
        self.load_ms = self.loaded_records = 0
        self._config = config
        self._logs = logs
        self._writer = writer
        self._clock = clock
        self._on_loaded = on_loaded
        self._on_applied = on_applied
        self._journal = Journal(0, config.message_max_bytes)
        self._taken_from = self._journal
        self._reload = Reload(clock, self, "transactions")
        self._flush_waiters: list[asyncio.Future[None]] = []
        self.readers: set[asyncio.Event] = set()
        """Events that are set whenever the high watermark moves or the state changes."""
        self.view = StateLogView(self)

    @property
    def coordinator_epoch(self) -> int:
        """The coordinator epoch of markers: 0 at the first start, as in Kafka. It grows whenever
        the log changes hands, so that markers of a former owner are fenced."""
        return self._owner_epoch - _FIRST_OWNER_EPOCH

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

    async def load_first(self) -> None:
        """The load at start; if it fails, the coordinator refuses and tries again, unless its
        log is damaged."""
        await self._reload.load_first(self.load)

    async def load(self) -> None:
        """Raises LoadFailed or LogError."""
        started_ms = self._clock.now().monotonic_ms
        opened: LogState = await self._logs.open(LOG_NAME)
        table = TransactionTable(self._config)
        loaded = await _load_table(table, self._logs, opened)
        if self.state is CoordinatorState.CLOSED:
            return
        self.table = table
        self.loaded_records = loaded
        self.start_offset = opened.start_offset
        self._owner_epoch = opened.owner_epoch
        self._journal = Journal(opened.next_offset, self._config.message_max_bytes)
        self.load_ms = self._clock.now().monotonic_ms - started_ms
        self.state = CoordinatorState.ACTIVE
        self._wake()
        self._on_loaded()

    def close(self) -> None:
        """Refuse everything from now on. What was accepted may still become durable."""
        self.state = CoordinatorState.CLOSED
        self._reload.cancel()
        self._wake()

    async def closed(self) -> None:
        await self._reload.ended()

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
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._flush_waiters.append(waiter)
            await waiter
        return self.serves(table)

    def _wake(self) -> None:
        waiters, self._flush_waiters = self._flush_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for event in self.readers:
            event.set()

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
        return [
            Append(LOG_NAME, self._owner_epoch, first, last, timestamp_ms, payload)
            for first, last, timestamp_ms, payload in self._journal.take(self._clock.now().wall_ms)
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
        log.error("append failed", log=LOG_NAME, reason=str(error))
        if self.state is CoordinatorState.ACTIVE:
            self.state = CoordinatorState.FAILED
            self._reload.start(0)
        for batch in self._journal.failed():
            for completion in batch.completions:
                _, future = completion.data
                if not future.done():
                    future.set_exception(ApiError(ErrorCode.NOT_COORDINATOR))
        self._wake()


def _is_ongoing(change: Change) -> bool:
    return change.metadata is not None and change.metadata.state is TransactionState.ONGOING


def _looked_at(future: asyncio.Future[None]) -> None:
    """Look at the future's error, because nobody may await it any more; the program's log has the
    failure already."""
    if not future.cancelled():
        future.exception()


async def _load_table(table: TransactionTable, logs: PartitionLogs, state: LogState) -> int:
    """Replay the log into a fresh `table`; returns how many records were applied. Raises LogError,
    and LoadFailed for what cannot be decoded: skipping a decision would undo it."""
    offset, applied = state.start_offset, 0
    while offset < state.next_offset:
        batches = await logs.read(state.name, offset, _READ_BYTES)
        if not batches:
            raise LoadFailed(
                f"{state.name}: nothing at offset {offset}, log end {state.next_offset}"
            )
        for stored in batches:
            try:
                check_batches(stored)
                applied += _replay_batch(table, stored.payload)
            except (CorruptRecord, CorruptBatch, ValueError) as error:
                raise LoadFailed(f"{state.name} at offset {stored.base_offset}: {error}") from error
            offset = stored.last_offset + 1
        await asyncio.sleep(0)
    return applied


def _replay_batch(table: TransactionTable, payload: bytes) -> int:
    applied = 0
    for batch in iter_batches(payload):
        if batch.header.is_control:
            continue
        for record in iter_records(batch):
            if record.key is None:
                continue
            try:
                transactional_id = decode_key(record.key)
            except UnknownRecordType as unknown:
                log.warning("unknown record type skipped", type=unknown.record_type)
                continue
            metadata = None if record.value is None else from_value(record.value)
            table.replay(transactional_id, metadata, record.offset)
            applied += 1
    return applied


class StateLogView:
    """What of the log may be read, as `coordinator.topics.coordinator_logs` asks for it. It is the
    one partition of `__transaction_state`."""

    def __init__(self, log: StateLog) -> None:
        self._log = log
        self._producers = ProducerStates()

    def state(self, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark); None while the log is not served."""
        active = self._log.state is CoordinatorState.ACTIVE
        return (self._log.start_offset, self._log.durable_offset) if active else None

    def clean_offsets(self, partition: int) -> tuple[int, int]:
        return 0, 0

    def producers(self, partition: int) -> ProducerStates:
        """None ever: the coordinator writes without a producer id."""
        return self._producers

    def add_waiter(self, partition: int, event: asyncio.Event) -> None:
        self._log.readers.add(event)

    def remove_waiter(self, partition: int, event: asyncio.Event) -> None:
        self._log.readers.discard(event)
