"""Keeps the log of a shard short: what is still true is written again, the rest is dropped.

Every id whose newest record lies below a point of the durable log gets a copy of it at the end;
then the log is cut at that point. Nothing below is needed, whenever the process dies. Ids that
change meanwhile have a newer record and are passed over.
"""

from __future__ import annotations

import asyncio

import structlog

from groupd.coordinator.transactions.state_log import StateLog
from groupd.storage.log import LogError, PartitionLogs

log = structlog.get_logger("groupd.transactions")

RECORDS_MIN = 10_000
RECORDS_PER_ID = 4
"""A log is trimmed once it has more records than `RECORDS_MIN`, and more than this many for each
id."""

CHUNK = 200
"""Ids that are worked on before other work gets a turn."""


class Trimmer:
    """Trims the log. `due()` is cheap; `trim()` is one pass."""

    __slots__ = ("_busy", "_failed_at", "_log", "_logs", "records_min")

    def __init__(self, state_log: StateLog, logs: PartitionLogs) -> None:
        self._log = state_log
        self._logs = logs
        self._busy = False
        self._failed_at = 0
        self.records_min = RECORDS_MIN

    def due(self) -> bool:
        # After a failed pass it waits for as many records again: each pass writes every id.
        records = self._log.durable_offset - max(self._log.start_offset, self._failed_at)
        ids = len(self._log.table.entries)
        return not self._busy and records > max(self.records_min, RECORDS_PER_ID * ids)

    async def trim(self) -> None:
        """Does nothing lasting if the log fails on the way."""
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
