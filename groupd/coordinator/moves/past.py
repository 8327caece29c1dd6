"""What a group had committed at an earlier time, and who moved its offsets lately: both are read
from the log of its shard."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from groupd.coordinator.core.partitioning import offsets_log_name
from groupd.coordinator.history.changes import (
    Actor,
    ChangeKind,
    CommittedOffset,
    OffsetChange,
    who_moved,
)
from groupd.coordinator.history.replay import changes, extent_of, state_at
from groupd.coordinator.history.stream import split
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.storage.log import PartitionLogs

READ_BYTES = 1 << 20
RECORDS_MAX = 300_000
"""How many records at the end of a log are searched for the last moves."""

MOVES_MAX = 200
"""The most moves of offsets that are shown."""


async def committed_at(
    logs: PartitionLogs, work: LongWork, shard: GroupLogShard, group_id: str, at_ms: int
) -> list[CommittedOffset]:
    """Returns the offsets that were committed at `at_ms`. Raises BeforeHistory, UnreadableLog,
    LogError."""
    log = _ShardHistory(logs, work, shard)
    extent = await extent_of(log, group_id, at_ms)
    return (await state_at(log.batches(), group_id, extent.cut_offset)).offsets


async def last_moves(
    logs: PartitionLogs, work: LongWork, shard: GroupLogShard, group_id: str
) -> dict[str, Any]:
    """Returns the last moves of a group's offsets, newest first, with their authors as far as the
    log tells: `timestamp_ms`, `topic`, `partition`, `kind`, `from`, `to` (None: no offset) and
    `by`. Commits of members that just go on reading are left out. `complete`: whether the whole log
    was searched; of a long log only the last part is. Raises UnreadableLog, LogError."""
    log = _ShardHistory(logs, work, shard)
    complete = log.end - log.start_offset <= RECORDS_MAX
    if not complete:
        log.start_offset = log.end - RECORDS_MAX
    extent = await extent_of(log, group_id)
    found: deque[OffsetChange] = deque(maxlen=MOVES_MAX)
    async for change in changes(log.batches(), group_id, extent):
        if isinstance(change, OffsetChange) and not _reads_on(change):
            found.append(change)
    rows = [
        {
            "timestamp_ms": one.time_ms,
            "topic": one.topic,
            "partition": one.partition,
            "kind": one.kind.value,
            "from": None if one.before is None else one.before.offset,
            "to": None if one.after is None else one.after.offset,
            "by": who_moved(one),
        }
        for one in reversed(found)
    ]
    return {"group_id": group_id, "complete": complete, "moves": rows}


def _reads_on(change: OffsetChange) -> bool:
    """Whether a member just commits what it has read. Members do so all the time, and these changes
    would hide the few moves that a reader is looking for."""
    forward = change.kind is ChangeKind.FORWARD and change.author.actor is Actor.OWNER
    return forward or change.kind is ChangeKind.SAME


class _ShardHistory:
    """The log of a shard up to `end`, which is durable."""

    def __init__(self, logs: PartitionLogs, work: LongWork, shard: GroupLogShard) -> None:
        assert shard.log is not None
        self.start_offset, self.end = shard.log.history.start_offset, shard.durable_offset
        self._logs = logs
        self._work = work
        self.name = offsets_log_name(shard.partition)

    async def batches(self) -> AsyncIterator[bytes]:
        """Yields the batches. Other work gets a turn before each."""
        offset = self.start_offset
        while offset < self.end:
            found = await self._logs.read(self.name, offset, READ_BYTES)
            for stored in found:
                for payload in split(stored.payload):
                    await self._work.turn()
                    yield payload
            if not found:
                return
            offset = found[-1].last_offset + 1
