"""One topic partition: offsets, producers and their transactions, readers that wait. Offsets are
assigned at once and in order (`stage`); data becomes readable when it is in the store (`durable`).
After any failed append the object is closed and dropped. The next request opens the log anew, which
fences the appends still under way, so there is nothing to roll back.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.topics.stored_batches import LeaderEpochs, TailCache, read_batches
from groupd.coordinator.topics.topic import log_name
from groupd.protocol.messages import TopicId
from groupd.protocol.records.batch import BatchHeader, CorruptBatch, iter_batches, with_base_offset
from groupd.protocol.records.batch_builder import encode_marker
from groupd.storage.log import Append, LogCorrupt, LogState, PartitionLogs, StoredBatch
from groupd.storage.units import OwnedUnit, Unit

_RECOVERY_READ_BYTES = 1 << 20
_TURN_BATCHES = 250
"""Batches that are read before other work gets a turn: about a millisecond."""


class ReadableLog(Protocol):
    """What Fetch and ListOffsets need of a log, of topic data or of a coordinator. Offsets below
    `high_watermark` are durable. `closed`: look the partition up again."""

    @property
    def name(self) -> str: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def position(self) -> int:
        """The high watermark, for requests that wait for it to move (`long_polls.Watchable`)."""
        ...

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open; not above the high watermark."""
        ...

    @property
    def closed(self) -> bool: ...

    @property
    def changes(self) -> int:
        """How often something that readers see has changed; -1 if this is not counted."""
        ...

    @property
    def producers(self) -> ProducerStates: ...

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs of the log. The newest one is the leader's."""
        ...

    def aborted(self, from_offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        """Aborted transactions, as (producer id, first offset), that have records in this range.
        Call it right after `read`, for the range that `read` has returned."""
        ...

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        """Batches below the high watermark; otherwise like `PartitionLogs.read`. Raises
        LogError."""
        ...

    async def first_at_or_after(self, timestamp_ms: int) -> StoredBatch | None:
        """See `PartitionLogs.first_at_or_after`. Raises LogError."""
        ...

    async def with_max_timestamp(self) -> StoredBatch | None:
        """See `PartitionLogs.with_max_timestamp`. Raises LogError."""
        ...

    def add_waiter(self, event: asyncio.Event) -> None:
        """Set `event` whenever the high watermark moves or the log is closed."""
        ...

    def remove_waiter(self, event: asyncio.Event) -> None: ...


class PartitionLog:
    """The open log of partition `partition` of topic `topic_id`. Only `open_partition` makes it."""

    __slots__ = (
        "_cache",
        "_compactions",
        "_logs",
        "_waiters",
        "changes",
        "clean_offset",
        "closed",
        "epochs",
        "high_watermark",
        "name",
        "next_offset",
        "owner_epoch",
        "partition",
        "producers",
        "start_offset",
        "topic_id",
        "unit",
    )

    def __init__(
        self,
        topic_id: TopicId,
        partition: int,
        unit: Unit,
        state: LogState,
        logs: PartitionLogs,
        cache: TailCache,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.unit = unit
        self.epochs = LeaderEpochs()
        self.name = state.name
        self.owner_epoch = state.owner_epoch
        self.start_offset = state.start_offset
        self.clean_offset = state.clean_offset
        self.next_offset = state.next_offset
        self.high_watermark = state.next_offset
        self.producers = ProducerStates()
        self.closed = False
        self.changes = 0
        self._logs = logs
        self._cache = cache
        self._compactions = 0
        self._waiters: dict[asyncio.Event, None] = {}

    @property
    def position(self) -> int:
        return self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        stable = self.producers.transactions.last_stable_offset(self.high_watermark)
        # The beginning of an open transaction may have been deleted.
        return max(stable, self.start_offset)

    def stage(self, header: BatchHeader, payload: bytes) -> Append:
        """Assign the next offsets to the batch and remember its producer. The caller appends the
        result."""
        base_offset = self.next_offset
        self.producers.appended(header, base_offset)
        return self._append(
            base_offset + header.last_offset_delta,
            header.max_timestamp_ms,
            with_base_offset(payload, base_offset, self.epochs.latest),
        )

    def stage_marker(self, marker: Marker, timestamp_ms: int) -> Append:
        """Like `stage`, for a transaction marker. Raises ApiError INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED."""
        self.producers.check_marker(marker)
        self.producers.marked(marker, self.next_offset, timestamp_ms)
        payload = encode_marker(
            self.next_offset,
            self.epochs.latest,
            timestamp_ms,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            commit=marker.committed,
        )
        return self._append(self.next_offset, timestamp_ms, payload)

    def _append(self, last_offset: int, max_timestamp_ms: int, payload: bytes) -> Append:
        base_offset, self.next_offset = self.next_offset, last_offset + 1
        return Append(
            self.name, self.owner_epoch, base_offset, last_offset, max_timestamp_ms, payload
        )

    def durable(self, append: Append) -> None:
        """The staged batch is in the store: make it readable."""
        if append.last_offset < self.high_watermark or self.closed:
            return
        self._cache.add(
            self.name,
            StoredBatch(
                append.base_offset, append.last_offset, append.max_timestamp_ms, append.payload
            ),
        )
        self.high_watermark = append.last_offset + 1
        self.producers.transactions.durable(self.high_watermark)
        self._wake()

    def truncated(self, start_offset: int) -> None:
        self.start_offset = max(self.start_offset, start_offset)
        self.producers.transactions.forget_below(self.start_offset)
        self._wake()

    def compacted(self, clean_offset: int) -> None:
        """The cleaner has gone over the log up to `clean_offset`. It has left no records of aborted
        transactions there and, after a while, no marker up to which a reader would skip them."""
        self.clean_offset = clean_offset
        self._compactions += 1
        self._cache.drop(self.name)
        self.producers.transactions.forget_below(clean_offset)

    def close(self) -> None:
        """Stage nothing more. Waiting readers are woken and look the partition up again."""
        self.closed = True
        self._cache.drop(self.name)
        self._wake()

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        while True:
            cached = self._cache.read(self.name, from_offset, max_bytes, min_one)
            if cached is not None:
                return cached
            compactions = self._compactions
            payloads = await read_batches(
                self._logs, self.name, from_offset, self.high_watermark, max_bytes, min_one=min_one
            )
            # If a compaction came in between, the payloads may have aborted records that `aborted`
            # no longer knows.
            if compactions == self._compactions:
                return payloads or []

    def aborted(self, from_offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        return self.producers.transactions.aborted(from_offset, end_offset)

    async def first_at_or_after(self, timestamp_ms: int) -> StoredBatch | None:
        return await self._logs.first_at_or_after(self.name, timestamp_ms)

    async def with_max_timestamp(self) -> StoredBatch | None:
        return await self._logs.with_max_timestamp(self.name)

    async def wait_durable(self, offset: int) -> bool:
        """Wait until the batch that ends at `offset` is durable. Returns False if its append
        failed."""
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
        self._waiters[event] = None

    def remove_waiter(self, event: asyncio.Event) -> None:
        self._waiters.pop(event, None)

    def _wake(self) -> None:
        self.changes += 1
        for event in self._waiters:
            event.set()


async def open_partition(
    logs: PartitionLogs,
    cache: TailCache,
    topic_id: TopicId,
    partition: int,
    owned: OwnedUnit,
    leader_epoch: int,
) -> PartitionLog:
    """Open the log as its leader at `leader_epoch`, and read all of it for its producers,
    transactions and leader epochs. Raises LogError."""
    state = await logs.open(log_name(topic_id, partition), owned)
    log = PartitionLog(topic_id, partition, owned.unit, state, logs, cache)
    offset, seen = state.start_offset, 0
    while offset < state.next_offset:
        batches = await logs.read(state.name, offset, _RECOVERY_READ_BYTES)
        if not batches:
            raise LogCorrupt(f"log {state.name}: the batch at offset {offset} is missing")
        for row in batches:
            try:
                for batch in iter_batches(row.payload):
                    log.producers.replay(batch.payload, batch.header)
                    log.epochs.began(batch.header.leader_epoch, batch.header.base_offset)
                    seen += 1
                    if seen % _TURN_BATCHES == 0:
                        await asyncio.sleep(0)
            except CorruptBatch as error:
                raise LogCorrupt(f"{state.name} at offset {row.base_offset}: {error}") from error
        offset = batches[-1].last_offset + 1
    log.producers.transactions.durable(state.next_offset)
    log.epochs.began(leader_epoch, state.next_offset)
    return log
