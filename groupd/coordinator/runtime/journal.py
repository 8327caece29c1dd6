"""Group commit of one shard, without I/O: open batches, batches in flight, parked replies.

`accept` gives records their offsets and parks replies behind them; `take` closes the open batches
and encodes them; `durable` and `failed` settle what was taken. A reply without records of its own
waits for the batch that holds the last pending record of its group. Batches settle in order.

The records of a transaction are a batch of their own, and so is its marker: the open batch ends
before them and nothing is added to them (docs/spec/offsets-and-log.md#6 and #7).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct, field

from groupd.coordinator.core.types import NO_TOKEN, Completion, OutsideCall
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.waiting import Replies, Waiter
from groupd.protocol.records.batch import TRANSACTIONAL
from groupd.protocol.records.batch_builder import (
    RECORD_OVERHEAD_BYTES,
    KeyValue,
    encode_marker,
    encode_records,
    new_header,
    pack_batch,
)

WHOLE_SHARD = "*"
"""The gate of replies that wait for every pending record of the shard."""

BATCH_OVERHEAD_BYTES = 61
"""The size of the header of a batch."""


class EncodedWrite(Struct, frozen=True):
    """The records of one atomic write, `count` in all. `body(first_delta)` returns them as a batch
    has them; `first_delta`: the first record's offset minus the batch's base offset. `size_bytes`:
    an upper bound of their size in a batch. `names`: the groups or transactional ids that they are
    about, at least one."""

    body: Callable[[int], bytes]
    count: int
    size_bytes: int
    names: Sequence[str]


class RecordsTooLarge(Exception):
    """One atomic write does not fit into a batch of `max.message.bytes`."""


def measured(records: Sequence[KeyValue], names: Sequence[str]) -> EncodedWrite:
    size = sum([len(key or b"") + len(value or b"") for key, value in records])
    size += RECORD_OVERHEAD_BYTES * len(records)
    return EncodedWrite(partial(encode_records, records), len(records), size, names)


class JournalBatch(Struct):
    """Records that become durable together, and the requests that wait for them."""

    base_offset: int
    opened_at_ms: int
    count: int = 0
    bodies: list[bytes] = field(default_factory=list)
    """The encoded records of each write, `count` records in all."""
    size_bytes: int = BATCH_OVERHEAD_BYTES
    replies: list[tuple[Waiter, Any]] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    calls: list[OutsideCall] = field(default_factory=list)
    askers: list[Waiter] = field(default_factory=list)
    """The requests that wait for the answers to `calls`."""
    groups: set[str] = field(default_factory=set)
    producer: tuple[int, int] | None = None
    """(id, epoch) of the producer whose transaction the batch belongs to."""
    marker: Marker | None = None
    """The marker that the batch holds instead of records."""

    @property
    def end_offset(self) -> int:
        return self.base_offset + (self.count if self.marker is None else 1)

    @property
    def awaited(self) -> bool:
        return bool(self.replies or self.askers)

    @property
    def alone(self) -> bool:
        return self.producer is not None or self.marker is not None

    def encode(self, wall_ms: int) -> bytes:
        marker = self.marker
        if marker is not None:
            return encode_marker(
                self.base_offset,
                0,
                wall_ms,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                commit=marker.committed,
            )
        in_transaction = self.producer is not None
        header = new_header(
            self.base_offset,
            self.end_offset - 1,
            wall_ms,
            wall_ms,
            attributes=TRANSACTIONAL if in_transaction else 0,
            producer=(*(self.producer or (-1, -1)), 0),
            record_count=self.count,
        )
        return pack_batch(header, b"".join(self.bodies))


class TakenBatch(NamedTuple):
    """An encoded batch, ready for the log."""

    base_offset: int
    last_offset: int
    timestamp_ms: int
    payload: bytes


class Journal:
    """Group commit of one shard's records from `next_offset` on."""

    def __init__(self, next_offset: int, batch_bytes_max: int) -> None:
        self.next_offset = next_offset
        self.durable_offset = next_offset
        self._batch_bytes_max = batch_bytes_max
        self._open: list[JournalBatch] = []
        self._in_flight: list[JournalBatch] = []
        self._last_batch: dict[str, JournalBatch] = {}
        self.pending: Container[str] = self._last_batch
        """Groups with records that are not durable yet, and the last batch of each."""

    @property
    def idle(self) -> bool:
        return not self._open and not self._in_flight

    def accept(
        self,
        encoded: EncodedWrite,
        replies: Replies,
        completion: Completion | None,
        now_ms: int,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Append an atomic write and park `replies` behind it. `producer`: (id, epoch) of the
        producer to whose transaction the records belong."""
        count, size = encoded.count, encoded.size_bytes
        if producer is None:
            batch = self._batch_for(size, now_ms)
        else:
            batch = self._new_batch(now_ms)
            batch.producer = producer
        # Encoded now: the bytes take less memory than the many keys and values of a write.
        batch.bodies.append(encoded.body(batch.count))
        batch.count += count
        batch.size_bytes += size
        batch.replies += replies
        if completion is not None:
            batch.completions.append(completion)
        self.next_offset += count
        self._gate(batch, encoded.names)

    def accept_marker(
        self, marker: Marker, groups: Sequence[str], replies: Replies, now_ms: int
    ) -> None:
        """Append the marker that ends a transaction and changes the offsets of `groups`."""
        batch = self._new_batch(now_ms)
        batch.marker = marker
        batch.replies += replies
        self.next_offset += 1
        self._gate(batch, groups)

    def park(self, gate: str, replies: Replies, calls: Sequence[OutsideCall] = ()) -> bool:
        """Park replies and calls behind the pending records of `gate`. Returns False if there are
        no such records."""
        if gate == WHOLE_SHARD:
            pending = self._open or self._in_flight
            batch = pending[-1] if pending else None
        else:
            batch = self._last_batch.get(gate)
        if batch is None:
            return False
        batch.replies += replies
        batch.calls += calls
        batch.askers += [call.token for call in calls if call.token is not NO_TOKEN]
        return True

    def take(self, wall_ms: int) -> list[TakenBatch]:
        """Close and encode the open batches. They are in flight from now on."""
        taken = []
        for batch in self._open:
            payload = batch.encode(wall_ms)
            taken.append(TakenBatch(batch.base_offset, batch.end_offset - 1, wall_ms, payload))
        self._in_flight += self._open
        self._open = []
        return taken

    def durable(self) -> list[JournalBatch]:
        """What was taken is durable: returns its batches in order, whose replies may now be
        sent."""
        settled, self._in_flight = self._in_flight, []
        if settled:
            self.durable_offset = settled[-1].end_offset
        for batch in settled:
            for group in batch.groups:
                if self._last_batch.get(group) is batch:
                    del self._last_batch[group]
        return settled

    def failed(self) -> list[JournalBatch]:
        """The append failed: returns all batches, in flight or open, which are lost. The journal
        cannot be used any more."""
        lost = self._in_flight + self._open
        self._in_flight, self._open = [], []
        self._last_batch.clear()
        return lost

    def overdue(self, before_ms: int) -> list[list[Waiter]]:
        """Returns the requests that wait for batches which were opened before `before_ms`, a list
        for each batch. The batches drop these requests, but keep their records and calls."""
        late: list[list[Waiter]] = []
        for batch in self._in_flight + self._open:
            if batch.opened_at_ms < before_ms and batch.awaited:
                late.append([waiter for waiter, _ in batch.replies] + batch.askers)
                batch.replies, batch.askers = [], []
        return late

    def oldest_ms(self) -> int | None:
        """When the oldest batch that a request waits for was opened, in monotonic ms; None if there
        is none."""
        times = [b.opened_at_ms for b in self._in_flight + self._open if b.awaited]
        return min(times) if times else None

    def _batch_for(self, size: int, now_ms: int) -> JournalBatch:
        last = self._open[-1] if self._open else None
        if last and not last.alone and last.size_bytes + size <= self._batch_bytes_max:
            return last
        return self._new_batch(now_ms)

    def _new_batch(self, now_ms: int) -> JournalBatch:
        batch = JournalBatch(self.next_offset, now_ms)
        self._open.append(batch)
        return batch

    def _gate(self, batch: JournalBatch, groups: Sequence[str]) -> None:
        for group in groups:
            batch.groups.add(group)
            self._last_batch[group] = batch
