"""What a group had committed at an earlier time, read from the log of its shard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

from groupd.coordinator.core.partitioning import offsets_log_name
from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.history.replay import state_at, survey
from groupd.coordinator.history.stream import split
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.storage.log import PartitionLogs

READ_BYTES = 1 << 20


class BeforeHistory(Exception):
    """The time is before what the log still has; `str()` says what is the earliest."""


async def committed_at(
    logs: PartitionLogs, work: LongWork, shard: ShardRuntime, group_id: str, at_ms: int
) -> list[CommittedOffset]:
    """The offsets of that time. Raises BeforeHistory, UnreadableLog, LogError."""
    name = offsets_log_name(shard.partition)
    assert shard.log is not None
    start, end = shard.log.history.start_offset, shard.durable_offset

    async def batches() -> AsyncIterator[bytes]:
        offset = start
        while offset < end:
            found = await logs.read(name, offset, READ_BYTES)
            for stored in found:
                for payload in split(stored.payload):
                    await work.turn()
                    yield payload
            if not found:
                return
            offset = found[-1].last_offset + 1

    extent = await survey(batches, start, group_id, at_ms)
    if extent.earliest_ms is not None and extent.cut_offset < extent.complete_from:
        earliest = datetime.fromtimestamp(extent.earliest_ms / 1000, UTC)
        raise BeforeHistory(
            "that is before the history that the log still has: the earliest time that can be "
            f"answered is {earliest.isoformat(timespec='milliseconds')}"
        )
    return (await state_at(batches(), group_id, extent.cut_offset)).offsets
