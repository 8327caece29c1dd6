"""The main process's side of `RemoteLogs`: the store, for the logs of one worker's shards.

Appends of all workers go through the one group commit, so that one fsync serves them all. A worker
reaches its own logs only: anything else is refused as fenced, whatever the process has become.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import Any

from groupd.coordinator.workers.messages import LogPlace, LogRead, LogStart, WorkerOperation
from groupd.storage.log import (
    Append,
    LogFenced,
    LogState,
    PartitionLogs,
    Replacement,
    StoredBatch,
)

Writer = Callable[[Sequence[Append]], "asyncio.Future[None]"]
"""`LogWriter.append`."""


class LogService:
    """Answers the calls about logs. `own`: the names that the worker may use."""

    def __init__(self, logs: PartitionLogs, writer: Writer, own: Container[str]) -> None:
        self._logs = logs
        self._writer = writer
        self._own = own
        self.operations: Mapping[WorkerOperation, Callable[[Any], Awaitable[Any]]] = {
            WorkerOperation.OPEN: self._open,
            WorkerOperation.APPEND: self._append,
            WorkerOperation.READ: self._read,
            WorkerOperation.FIRST_AT_OR_AFTER: self._first_at_or_after,
            WorkerOperation.WITH_MAX_TIMESTAMP: self._with_max_timestamp,
            WorkerOperation.TRUNCATE_BEFORE: self._truncate_before,
            WorkerOperation.REPLACE: self._replace,
            WorkerOperation.DELETE: self._delete,
        }

    def _check(self, *names: str) -> None:
        foreign = [name for name in names if name not in self._own]
        if foreign:
            raise LogFenced(foreign)

    async def _open(self, names: list[str]) -> dict[str, LogState]:
        self._check(*names)
        return await self._logs.open_many(names)

    def _append(self, batches: list[Append]) -> Awaitable[None]:
        # The writer is called before anything is awaited, so that the batches join its next commit.
        # Shielded: a channel that ends cancels its calls, but not what other workers wait for too.
        self._check(*(batch.name for batch in batches))
        return asyncio.shield(self._writer(batches))

    async def _read(self, read: LogRead) -> list[StoredBatch]:
        self._check(read.name)
        return await self._logs.read(
            read.name, read.from_offset, read.max_bytes, min_one=read.min_one
        )

    async def _first_at_or_after(self, place: LogPlace) -> StoredBatch | None:
        self._check(place.name)
        return await self._logs.first_at_or_after(place.name, place.number)

    async def _with_max_timestamp(self, name: str) -> StoredBatch | None:
        self._check(name)
        return await self._logs.with_max_timestamp(name)

    async def _truncate_before(self, start: LogStart) -> None:
        self._check(start.name)
        await self._logs.truncate_before(start.name, start.offset, start.owner_epoch)

    async def _replace(self, change: Replacement) -> None:
        self._check(change.name)
        await self._logs.replace(change)

    async def _delete(self, names: list[str]) -> None:
        self._check(*names)
        await self._logs.delete(names)
