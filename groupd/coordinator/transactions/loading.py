"""Reads records of transactional ids from a log into a table: from the log of a shard, or from the
log that held all ids before there were shards (`LegacyLog`).

The legacy log is only read, and no shard owns it. A shard whose own log is empty takes its ids over
from there, and ignores the legacy log from then on. Nothing was written to it since there are
shards, because older versions refuse the store (schema version 7).
"""

from __future__ import annotations

import asyncio

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.runtime.coordinator_types import TRANSACTIONS_TOPIC
from groupd.coordinator.runtime.loader import LoadFailed, check_batches
from groupd.coordinator.transactions.metadata import TransactionMetadata, from_value
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.records.batch import CorruptBatch, iter_batches, iter_records
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.records.transaction_records import decode_key
from groupd.storage.log import LogCorrupt, LogState, MeasuredLogs, PartitionLogs, StoredBatch

log = structlog.get_logger("groupd.transactions")

READ_BYTES = 1024 * 1024


async def load_table(table: TransactionTable, logs: PartitionLogs, state: LogState) -> int:
    """Replay a log into a fresh `table`. Returns how many records were applied. Raises LogError,
    and LoadFailed if a record cannot be decoded: if it were skipped a decision would be undone."""
    offset, applied = state.start_offset, 0
    while offset < state.next_offset:
        batches = await logs.read(state.name, offset, READ_BYTES)
        if not batches:
            raise LoadFailed(
                f"{state.name}: nothing at offset {offset}, log end {state.next_offset}"
            )
        applied += replay(table, state.name, batches)
        offset = batches[-1].last_offset + 1
        await asyncio.sleep(0)
    return applied


def replay(table: TransactionTable, name: str, batches: list[StoredBatch]) -> int:
    """Apply batches of the log `name`. Returns how many records were applied. Raises LoadFailed."""
    applied = 0
    for stored in batches:
        try:
            check_batches(stored)
            applied += _replay_batch(table, stored.payload)
        except (CorruptRecord, CorruptBatch, ValueError) as error:
            raise LoadFailed(f"{name} at offset {stored.base_offset}: {error}") from error
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


LEGACY_TRANSACTIONS_LOG = f"{TRANSACTIONS_TOPIC}-0"
"""The store's name of the legacy log."""

LEGACY_EPOCHS = 1 << 24
"""How many coordinator epochs are reserved for markers from the time of the legacy log. Each start
of a daemon took one, so there were never that many."""

TransactionalIds = list[tuple[str, TransactionMetadata]]


class LegacyLog:
    """The log that held all ids before there were shards. It is read when the first shard asks. Ids
    are in memory until their shards have asked for them."""

    def __init__(self, config: CoordinatorConfig, logs: MeasuredLogs) -> None:
        self._config = config
        self._logs = logs
        self._lock = asyncio.Lock()
        self._exists: bool | None = None
        self._ids: dict[int, TransactionalIds] = {}
        self._unasked: set[int] = set()
        """The shards that have not asked since the log was last read."""

    async def epochs(self) -> int:
        """Returns the first coordinator epoch of a shard. It is higher than in any marker that was
        written before there were shards. Raises LogError."""
        if self._exists is None:
            async with self._lock:
                self._exists = await self._has_records()
        return LEGACY_EPOCHS if self._exists else 0

    async def _has_records(self) -> bool:
        if not await self._logs.ends([LEGACY_TRANSACTIONS_LOG]):
            return False  # a read would need a connection of its own
        try:
            return bool(await self._logs.read(LEGACY_TRANSACTIONS_LOG, 0, 1))
        except LogCorrupt:
            return True

    async def ids_of(self, shard: int) -> TransactionalIds:
        """Returns the shard's ids, sorted, with their metadata. Raises LogError, LoadFailed."""
        if not await self.epochs():
            return []
        async with self._lock:
            # If a shard asks again its ids were not written, or the store has lost them.
            if shard not in self._unasked:
                await self._read()
            self._unasked.remove(shard)
            return self._ids.pop(shard, [])

    async def _read(self) -> None:
        table, offset = TransactionTable(self._config), 0
        while batches := await self._logs.read(LEGACY_TRANSACTIONS_LOG, offset, READ_BYTES):
            replay(table, LEGACY_TRANSACTIONS_LOG, batches)
            offset = batches[-1].last_offset + 1
            await asyncio.sleep(0)
        count = self._config.transaction_state_log_num_partitions
        self._ids, self._unasked = {}, set(range(count))
        for name, entry in sorted(table.entries.items()):
            self._ids.setdefault(partition_for(name, count), []).append((name, entry.metadata))
