"""The store as a worker sees it: `PartitionLogs` whose every call is a call to the main process."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.coordinator.workers import log_bytes
from groupd.coordinator.workers.channel import Channel
from groupd.coordinator.workers.operations import Operation
from groupd.storage.log import Append, LogState, Replacement, StoredBatch


class RemoteLogs:
    """See `storage.log.PartitionLogs`. A channel that ends in the middle of a call is
    LogUnavailable: what was written is unknown."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def open(self, name: str) -> LogState:
        return (await self.open_many([name]))[name]

    async def open_many(self, names: Sequence[str]) -> dict[str, LogState]:
        answer = await self._channel.call(Operation.OPEN, log_bytes.encode_names(names))
        return log_bytes.decode_states(answer)

    async def append(self, batches: Sequence[Append]) -> None:
        if batches:
            await self._channel.call(Operation.APPEND, log_bytes.encode_appends(batches))

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        asked = log_bytes.encode_read(name, from_offset, max_bytes, min_one=min_one)
        return log_bytes.decode_rows(await self._channel.call(Operation.READ, asked))

    async def first_at_or_after(self, name: str, timestamp_ms: int) -> StoredBatch | None:
        asked = log_bytes.encode_place(name, timestamp_ms)
        return _one(await self._channel.call(Operation.FIRST_AT_OR_AFTER, asked))

    async def with_max_timestamp(self, name: str) -> StoredBatch | None:
        asked = log_bytes.encode_names([name])
        return _one(await self._channel.call(Operation.WITH_MAX_TIMESTAMP, asked))

    async def truncate_before(self, name: str, offset: int) -> None:
        await self._channel.call(Operation.TRUNCATE_BEFORE, log_bytes.encode_place(name, offset))

    async def replace(self, change: Replacement) -> None:
        change.check()
        await self._channel.call(Operation.REPLACE, log_bytes.encode_replacement(change))

    async def delete(self, names: Sequence[str]) -> None:
        await self._channel.call(Operation.DELETE, log_bytes.encode_names(names))


def _one(answer: bytes) -> StoredBatch | None:
    rows = log_bytes.decode_rows(answer)
    return rows[0] if rows else None
