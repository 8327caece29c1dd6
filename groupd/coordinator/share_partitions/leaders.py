"""The share-partitions that this node leads, of all share groups (docs/spec/share-group.md#4.2).

They are kept beside the open log of their partition. A share-partition is dropped with that log,
when the persister says that another one leads it, or when no member of its group has a session here
any more. The next ShareFetch loads it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.slices import REQUEST_ITEMS, Steps, chunks
from groupd.coordinator.core.types import Instant
from groupd.coordinator.persister import Persister
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.request_tasks import CLOSE_TIMEOUT_S
from groupd.coordinator.share_partitions.counts import ShareCounts
from groupd.coordinator.share_partitions.group_settings import ShareGroupSettings
from groupd.coordinator.share_partitions.reading import KeptBatches
from groupd.coordinator.share_partitions.share_partition import (
    Bury,
    SharePartition,
    ShareSurroundings,
)
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partition_states import PartitionState
from groupd.coordinator.topics.sessions import TargetKey
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ApiError, ErrorCode

SHARE_PARTITIONS_MAX = 100_000
"""The most share-partitions of all groups together. Each takes some kilobytes."""

_LOCK = "lock"


class PartitionShares(PartitionState):
    """The share-partitions of one partition, by group. `closed(share)` is called for each one that
    is dropped."""

    def __init__(
        self, partition: PartitionLog, clock: Clock, closed: Callable[[SharePartition], None]
    ) -> None:
        super().__init__(partition, clock)
        self.by_group: dict[str, SharePartition] = {}
        self._closed = closed

    def lock_moved(self, share: SharePartition) -> None:
        """Set the timer of a share-partition to the end of its first lock."""
        key = (_LOCK, share.group_id)
        records = share.records
        until_ms = None if records is None or share.closed else records.next_lock_ms
        if until_ms is None:
            self.deadlines.cancel(key)
            return
        before = self.deadlines.get(key)
        if before is None or until_ms < before.at_ms:
            self.deadlines.set(key, until_ms)
            self.arm()
        else:
            before.at_ms = until_ms  # the timer stays: it is set again when it rings

    def expire(self, key: DeadlineKey, now: Instant) -> None:
        share = self.by_group.get(key[1])
        if share is not None:
            share.expire(now.monotonic_ms)

    def forget(self, share: SharePartition) -> None:
        if self.by_group.get(share.group_id) is share:
            del self.by_group[share.group_id]
            self.deadlines.cancel((_LOCK, share.group_id))

    def dropped(self) -> None:
        for share in list(self.by_group.values()):
            self._closed(share)


class ShareLeaders:
    """All share-partitions of this node. `sessions(group id)`: how many sessions members of the
    group have here. The others: see `ShareSurroundings`."""

    def __init__(
        self,
        plane: DataPlane,
        persister: Persister,
        clock: Clock,
        settings: Callable[[str], ShareGroupSettings],
        sessions: Callable[[str], int],
        counts: ShareCounts,
        bury: Bury,
    ) -> None:
        self._partitions = plane.partitions
        self._states = plane.keep_states(lambda log: PartitionShares(log, clock, self.drop))
        self._sessions = sessions
        self.kept = KeptBatches()
        self._at_ms = 0
        self._groups: dict[str, dict[TargetKey, SharePartition]] = {}
        self._ending: dict[tuple[str, TargetKey], SharePartition] = {}
        """By group and partition: those that were dropped while changes of them were on their way
        to the persister."""
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._around = ShareSurroundings(
            persister,
            clock,
            plane.time_search,
            settings,
            counts,
            self._start,
            self._settled,
            bury,
        )

    def __len__(self) -> int:
        return self._count

    def same_ms(self, at_ms: int) -> int:
        """Returns `at_ms`. Locks of one millisecond share the object, which takes 32 bytes."""
        if at_ms != self._at_ms:
            self._at_ms = at_ms
        return self._at_ms

    def all(self) -> Iterator[SharePartition]:
        """All share-partitions."""
        for group_id in list(self._groups):
            yield from self.of_group(group_id)

    def of_group(self, group_id: str) -> Iterator[SharePartition]:
        """The share-partitions of a group."""
        yield from list(self._groups.get(group_id, {}).values())

    def get(self, group_id: str, key: TargetKey) -> SharePartition | None:
        """The share-partition of a topic id and a partition, if it was read before."""
        return self._groups.get(group_id, {}).get(key)

    def led(self, group_id: str, key: TargetKey) -> SharePartition | None:
        """As `get`, if the share-partition is in use, and this node leads it."""
        share = self.get(group_id, key)
        if share is None or share.closed or not self._partitions.leads(share.partition):
            return None
        return share

    async def open(self, group_id: str, topic: Topic, partition: int) -> SharePartition:
        """The share-partition; it begins to load when it is asked for. Raises LogError, and
        ApiError as `Partitions.open`, or KAFKA_STORAGE_ERROR if there are too many."""
        log = await self._partitions.open(topic, partition)
        shares = self._states.of(log)
        share = shares.by_group.get(group_id)
        if share is not None and share.closed:
            self.drop(share)
            share = None
        if share is None:
            if self._count >= SHARE_PARTITIONS_MAX:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "too many share-partitions are open")
            before = self._ending.get((group_id, (log.topic_id, log.partition)))
            share = SharePartition(group_id, log, self._around, shares.lock_moved, before)
            shares.by_group[group_id] = share
            self._groups.setdefault(group_id, {})[log.topic_id, log.partition] = share
            self._count += 1
        return share

    def drop(self, share: SharePartition) -> None:
        """Give a share-partition up: what is durable of it stays."""
        if not share.closed:
            share.close()
        group = self._groups.get(share.group_id, {})
        key = share.partition.topic_id, share.partition.partition
        if group.get(key) is not share:
            return
        del group[key]
        if not group:
            del self._groups[share.group_id]
        self._count -= 1
        if share.writes:
            self._ending[share.group_id, key] = share
        self.kept.drop(share)
        shares = self._states.get(share.partition)
        if shares is not None:
            shares.forget(share)

    def drop_idle(self, group_id: str) -> Steps[None]:
        """Drop what a group without any session does not need. What is locked or being written is
        dropped later."""
        for some in chunks(self.of_group(group_id), REQUEST_ITEMS):
            for share in some:
                self._settled(share)
            yield

    def _settled(self, share: SharePartition) -> None:
        if self._ending and not share.writes:
            key = share.group_id, (share.partition.topic_id, share.partition.partition)
            if self._ending.get(key) is share:
                del self._ending[key]
        if share.closed or (not self._sessions(share.group_id) and share.idle):
            self.drop(share)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait until what is on its way to the persister is written. After `CLOSE_TIMEOUT_S` the
        rest is given up."""
        if self._tasks:
            for task in (await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT_S))[1]:
                task.cancel()
