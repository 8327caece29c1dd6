"""The main process's side of `RemoteLogs`: the store, for the logs of one worker's shards.

Appends of all workers go through the one group commit, so that one fsync serves them all. A worker
reaches its own logs only: anything else is refused as fenced, whatever the process has become.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

from groupd.coordinator.workers import log_bytes
from groupd.coordinator.workers.operations import Operation
from groupd.storage.log import Append, LogFenced, PartitionLogs, StoredBatch

Writer = Callable[[Sequence[Append]], "asyncio.Future[None]"]
"""`LogWriter.append`."""


class LogService:
    """Answers the calls about logs. `own`: the names that the worker may use."""

    def __init__(self, logs: PartitionLogs, writer: Writer, own: Container[str]) -> None:
        self._logs = logs
        self._writer = writer
        self._own = own
        self.operations: Mapping[Operation, Callable[[bytes], Awaitable[bytes]]] = {
            Operation.OPEN: self._open,
            Operation.APPEND: self._append,
            Operation.READ: self._read,
            Operation.FIRST_AT_OR_AFTER: self._first_at_or_after,
            Operation.WITH_MAX_TIMESTAMP: self._with_max_timestamp,
            Operation.TRUNCATE_BEFORE: self._truncate_before,
            Operation.REPLACE: self._replace,
            Operation.DELETE: self._delete,
        }

    def _check(self, names: Sequence[str]) -> None:
        foreign = [name for name in names if name not in self._own]
        if foreign:
            raise LogFenced(foreign)

    async def _open(self, body: bytes) -> bytes:
        names = log_bytes.decode_names(body)
        self._check(names)
        return log_bytes.encode_states(await self._logs.open_many(names))

    def _append(self, body: bytes) -> Awaitable[bytes]:
        # Marked with the writer before anything is awaited, so that it joins the next commit.
        batches = log_bytes.decode_appends(body)
        self._check([batch.name for batch in batches])
        written = self._writer(batches)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def done(future: asyncio.Future[None]) -> None:
            if answer.done():
                return
            error = future.exception()
            if error is None:
                answer.set_result(b"")
            else:
                answer.set_exception(error)

        written.add_done_callback(done)
        return answer

    async def _read(self, body: bytes) -> bytes:
        name, from_offset, max_bytes, min_one = log_bytes.decode_read(body)
        self._check([name])
        rows = await self._logs.read(name, from_offset, max_bytes, min_one=min_one)
        return log_bytes.encode_rows(rows)

    async def _first_at_or_after(self, body: bytes) -> bytes:
        name, timestamp_ms = log_bytes.decode_place(body)
        self._check([name])
        return _maybe(await self._logs.first_at_or_after(name, timestamp_ms))

    async def _with_max_timestamp(self, body: bytes) -> bytes:
        names = log_bytes.decode_names(body)
        self._check(names)
        return _maybe(await self._logs.with_max_timestamp(names[0]))

    async def _truncate_before(self, body: bytes) -> bytes:
        name, offset = log_bytes.decode_place(body)
        self._check([name])
        await self._logs.truncate_before(name, offset)
        return b""

    async def _replace(self, body: bytes) -> bytes:
        change = log_bytes.decode_replacement(body)
        self._check([change.name])
        await self._logs.replace(change)
        return b""

    async def _delete(self, body: bytes) -> bytes:
        names = log_bytes.decode_names(body)
        self._check(names)
        await self._logs.delete(names)
        return b""


def _maybe(row: StoredBatch | None) -> bytes:
    return log_bytes.encode_rows([] if row is None else [row])
