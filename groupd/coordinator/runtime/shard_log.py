"""The two logs of a shard: its history, and what the cleaner has made of it.

The *history* is the log that the shard writes. Below its clean offset the cleaner has cleaned it in
place, which happens when the retention of the history has passed. Until then the *compacted* log
holds the same state in fewer records: everything below its clean offset, cleaned. A shard can be
loaded from the history alone, or from the compacted log and the history from its clean offset on.

The compacted log is used only while it is ahead of the clean part of the history. If it is behind,
the history may lack tombstones for records that the compacted log still has.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.coordinator.core.partitioning import compacted_log_name, offsets_log_name
from groupd.storage.log import LogState, PartitionLogs
from groupd.storage.units import OwnedUnit


class OwnedLog(Struct):
    """One of the two logs, owned by this process. The cleaner moves `clean_offset`. `records`: how
    many are below it, 0 if they have not been counted yet."""

    name: str
    owner_epoch: int
    start_offset: int
    clean_offset: int
    records: int = 0


class ShardLog(Struct):
    """Both logs as they were opened. `next_offset`: the end of the history at that time. `owned`:
    the shard's unit in a cluster."""

    history: OwnedLog
    compacted: OwnedLog
    next_offset: int
    owned: OwnedUnit | None = None
    damaged: bool = False
    """The compacted log cannot be used and must be made again."""

    @property
    def empty(self) -> bool:
        return not self.next_offset and not self.compacted.clean_offset

    @property
    def compacted_end(self) -> int:
        """The offset up to which the compacted log stands for the history; 0 if it does not."""
        end = self.compacted.clean_offset
        return 0 if self.damaged or end <= self.history.clean_offset else end


async def open_shard_logs(
    logs: PartitionLogs, partitions: Sequence[int], owned: OwnedUnit | None = None
) -> dict[int, ShardLog]:
    """Take ownership of the logs of shards, in one transaction. In a cluster only one shard is
    opened at a time, whose unit is `owned`. Raises LogError."""
    names = [name(p) for name in (offsets_log_name, compacted_log_name) for p in partitions]
    opened = await logs.open_many(names, owned)
    return {
        partition: shard_log(
            opened[offsets_log_name(partition)], opened[compacted_log_name(partition)], owned
        )
        for partition in partitions
    }


async def open_shard_log(
    logs: PartitionLogs, partition: int, owned: OwnedUnit | None = None
) -> ShardLog:
    return (await open_shard_logs(logs, [partition], owned))[partition]


def shard_log(history: LogState, compacted: LogState, owned: OwnedUnit | None = None) -> ShardLog:
    return ShardLog(_owned(history), _owned(compacted), history.next_offset, owned)


def _owned(state: LogState) -> OwnedLog:
    return OwnedLog(state.name, state.owner_epoch, state.start_offset, state.clean_offset)
