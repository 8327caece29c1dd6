"""The log that held all transactional ids before they had shards.

It is only read, whoever owns it: each shard takes over the ids that are its own when its log is
empty, and ignores it from then on. Nobody has written to it since shards came, because older
versions refuse the store (schema version 7).
"""

from __future__ import annotations

import asyncio

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.runtime.coordinator_types import TRANSACTIONS_TOPIC
from groupd.coordinator.transactions.metadata import TransactionMetadata
from groupd.coordinator.transactions.replay import READ_BYTES, replay
from groupd.coordinator.transactions.table import TransactionTable
from groupd.storage.log import LogCorrupt, MeasuredLogs

LEGACY_TRANSACTIONS_LOG = f"{TRANSACTIONS_TOPIC}-0"
"""The store's name of that log."""

LEGACY_EPOCHS = 1 << 24
"""Coordinator epochs that are left to the markers of that log. Each start of a daemon took one, so
there were never so many."""

TransactionalIds = list[tuple[str, TransactionMetadata]]


class LegacyLog:
    """Read when the first shard asks. Ids are in memory until their shards have asked for them."""

    def __init__(self, config: CoordinatorConfig, logs: MeasuredLogs) -> None:
        self._config = config
        self._logs = logs
        self._lock = asyncio.Lock()
        self._exists: bool | None = None
        self._ids: dict[int, TransactionalIds] = {}
        self._unasked: set[int] = set()
        """Shards that have not asked since the log was read."""

    async def epochs(self) -> int:
        """The first coordinator epoch of a shard: above all in markers that were written before
        there were shards. Raises LogError."""
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
        """The shard's ids, sorted, with what the log says of them. Raises LogError, LoadFailed."""
        if not await self.epochs():
            return []
        async with self._lock:
            # A shard that asks again has not written its ids, or the store has lost them.
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
