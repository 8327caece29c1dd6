"""One topic partition: offsets, producers, readers that wait.

Rules: offsets are given out at once and in order (`stage`); data becomes readable when the store
has it (`durable`). After any failed append the object is closed and forgotten: the next user opens
the log anew, which fences whatever is still under way. So there is nothing to roll back.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from coordinator.topics.names import log_name
from coordinator.topics.producer_state import ProducerStates
from coordinator.topics.tail_cache import TailCache, within
from protocol.messages import TopicId
from protocol.records.batch import BatchHeader, parse_header, with_base_offset
from storage.log import Append, LogCorrupt, LogState, PartitionLogs, StoredBatch

LEADER_EPOCH = 0
_RECOVERY_READ_BYTES = 4 << 20


class ReadableLog(Protocol):
    """What fetch and list offsets need of a partition, topic data or `__consumer_offsets`.

    Offsets below `high_watermark` are durable. `closed`: look the partition up again.
    """

    @property
    def name(self) -> str: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def closed(self) -> bool: ...

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        """Batches below the high watermark, as `PartitionLogs.read`. Raises LogError."""
        ...

    def add_waiter(self, event: asyncio.Event) -> None:
        """Set `event` whenever the high watermark moves or the log is closed."""
        ...

    def remove_waiter(self, event: asyncio.Event) -> None: ...


class PartitionLog:
    """The open log of partition `partition` of topic `topic_id`; only `open_partition` makes it."""

    __slots__ = (
        "_cache",
        "_logs",
        "_waiters",
        "closed",
        "high_watermark",
        "name",
        "next_offset",
        "owner_epoch",
        "partition",
        "producers",
        "start_offset",
        "topic_id",
    )

    def __init__(
        self,
        topic_id: TopicId,
        partition: int,
        state: LogState,
        logs: PartitionLogs,
        cache: TailCache,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.name = state.name
        self.owner_epoch = state.owner_epoch
        self.start_offset = state.start_offset
        self.next_offset = state.next_offset
        self.high_watermark = state.next_offset
        self.producers = ProducerStates()
        self.closed = False
        self._logs = logs
        self._cache = cache
        self._waiters: set[asyncio.Event] = set()

    def stage(self, header: BatchHeader, payload: bytes) -> Append:
        """Give the batch the next offsets and remember its producer; the caller appends it."""
        base_offset = self.next_offset
        last_offset = base_offset + header.last_offset_delta
        self.next_offset = last_offset + 1
        self.producers.appended(header, base_offset)
        return Append(
            name=self.name,
            owner_epoch=self.owner_epoch,
            base_offset=base_offset,
            last_offset=last_offset,
            max_timestamp_ms=header.max_timestamp_ms,
            payload=with_base_offset(payload, base_offset, LEADER_EPOCH),
        )

    def durable(self, append: Append) -> None:
        """The staged batch is in the store: readers may see it."""
        if append.last_offset < self.high_watermark or self.closed:
            return
        self._cache.add(
            self.name,
            StoredBatch(
                append.base_offset, append.last_offset, append.max_timestamp_ms, append.payload
            ),
        )
        self.high_watermark = append.last_offset + 1
        self._wake()

    def truncated(self, start_offset: int) -> None:
        self.start_offset = max(self.start_offset, start_offset)
        self._wake()

    def close(self) -> None:
        """Nothing more is staged here; whoever waits looks the partition up again."""
        self.closed = True
        self._cache.drop(self.name)
        self._wake()

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        cached = self._cache.read(self.name, from_offset, max_bytes, min_one)
        if cached is not None:
            return cached
        return await read_durable(self, self._logs, from_offset, max_bytes, min_one=min_one)

    async def wait_durable(self, offset: int) -> bool:
        """Wait until the batch that ends at `offset` is durable; False if its append failed."""
        event = asyncio.Event()
        self.add_waiter(event)
        try:
            while self.high_watermark <= offset and not self.closed:
                event.clear()
                await event.wait()
        finally:
            self.remove_waiter(event)
        return self.high_watermark > offset

    def add_waiter(self, event: asyncio.Event) -> None:
        self._waiters.add(event)

    def remove_waiter(self, event: asyncio.Event) -> None:
        self._waiters.discard(event)

    def _wake(self) -> None:
        for event in self._waiters:
            event.set()


async def read_durable(
    log: ReadableLog, logs: PartitionLogs, from_offset: int, max_bytes: int, *, min_one: bool
) -> list[bytes]:
    """Read the store up to the log's high watermark; the store may be ahead of it."""
    end = log.high_watermark
    if from_offset >= end:
        return []
    batches = await logs.read(log.name, from_offset, max_bytes, min_one=min_one)
    payloads = [batch.payload for batch in batches if batch.last_offset < end]
    return within(payloads, max_bytes, min_one)


async def open_partition(
    logs: PartitionLogs, cache: TailCache, topic_id: TopicId, partition: int
) -> PartitionLog:
    """Take the log over and read it once for its producers. Raises LogError."""
    state = await logs.open(log_name(topic_id, partition))
    log = PartitionLog(topic_id, partition, state, logs, cache)
    offset = state.start_offset
    while offset < state.next_offset:
        batches = await logs.read(state.name, offset, _RECOVERY_READ_BYTES)
        if not batches:
            raise LogCorrupt(f"log {state.name}: the batch at offset {offset} is missing")
        for batch in batches:
            log.producers.appended(parse_header(batch.payload), batch.base_offset)
        offset = batches[-1].last_offset + 1
    return log
