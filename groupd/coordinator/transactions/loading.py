"""Reads records of transactional ids into a table, and the log that held all ids before there were
shards (`LegacyLog`).

The legacy log is only read, and no shard owns it. A shard whose own log is empty takes its ids over
from there, and ignores the legacy log from then on. Nothing was written to it since there are
shards, because older versions refuse the store (schema version 7).
"""

from __future__ import annotations

import asyncio

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.runtime.coordinator_types import TRANSACTIONS_TOPIC
from groupd.coordinator.runtime.loader import READ_BYTES
from groupd.coordinator.runtime.log_replay import ApplyRecord, replay_rows
from groupd.coordinator.transactions.metadata import TransactionMetadata, from_value
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.records.transaction_records import decode_key
from groupd.storage.log import LogCorrupt, MeasuredLogs


def into(table: TransactionTable) -> ApplyRecord:
    """Returns a function that applies a record of transactional ids to `table`."""

    def apply(key: bytes, value: bytes | None, offset: int) -> int:
        table.replay(decode_key(key), None if value is None else from_value(value), offset)
        return 1

    return apply


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
        while rows := await self._logs.read(LEGACY_TRANSACTIONS_LOG, offset, READ_BYTES):
            await replay_rows(LEGACY_TRANSACTIONS_LOG, rows, into(table))
            offset = rows[-1].last_offset + 1
        count = self._config.transaction_state_log_num_partitions
        self._ids, self._unasked = {}, set(range(count))
        for name, entry in sorted(table.entries.items()):
            self._ids.setdefault(partition_for(name, count), []).append((name, entry.metadata))
