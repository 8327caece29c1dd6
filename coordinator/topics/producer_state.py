"""What a partition remembers of idempotent producers (KIP-98): duplicates and gaps.

Rules are Kafka's. Per producer id: its epoch and its last five batches. A batch with the sequence
range of one of them is a duplicate and answered with the first append's offset. An older epoch is
INVALID_PRODUCER_EPOCH; a newer one must start at sequence 0; else the sequence must follow the
last one (OUT_OF_ORDER_SEQUENCE_NUMBER). A producer that is not known may start anywhere: its
records may have been deleted (KIP-360), so UNKNOWN_PRODUCER_ID is never answered.

The least recently seen producers are forgotten beyond `PRODUCERS_MAX` of a partition.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from protocol.errors import ApiError, ErrorCode
from protocol.records.batch import BatchHeader

BATCHES_REMEMBERED = 5
PRODUCERS_MAX = 10000
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """Sequences and offsets, all inclusive. `timestamp_ms`: of the append under
    LogAppendTime, else -1."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class ProducerEntry:
    epoch: int
    batches: deque[ProducedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))


def last_sequence(first: int, records: int) -> int:
    """Sequences wrap from 2^31 - 1 to 0."""
    return (first + records - 1) & _INT_MAX


class ProducerStates:
    """The producers of one partition."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: OrderedDict[int, ProducerEntry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """The earlier append if this batch is a duplicate, None if it may be appended. Raises
        ApiError INVALID_PRODUCER_EPOCH or OUT_OF_ORDER_SEQUENCE_NUMBER."""
        entry = self._entries.get(header.producer_id)
        if header.producer_id < 0 or entry is None:
            return None
        first = header.base_sequence
        last = last_sequence(first, header.record_count)
        if header.producer_epoch == entry.epoch:
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
            expected = (entry.batches[-1].last_sequence + 1) & _INT_MAX
        elif header.producer_epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} is {header.producer_epoch}, which is "
                f"smaller than the last seen epoch {entry.epoch}",
            )
        else:
            expected = 0
        if first != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: {first} "
                f"(incoming), {expected} (expected)",
            )
        return None

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a batch that now stands at `base_offset`, live or while the log is read."""
        producer_id = header.producer_id
        if producer_id < 0 or header.is_control or header.base_sequence < 0:
            return
        entry = self._entries.get(producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self._entries[producer_id] = ProducerEntry(header.producer_epoch)
        entry.batches.append(
            ProducedBatch(
                header.base_sequence,
                last_sequence(header.base_sequence, header.record_count),
                base_offset,
                base_offset + header.last_offset_delta,
                header.max_timestamp_ms if header.is_log_append_time else -1,
            )
        )
        self._entries.move_to_end(producer_id)
        if len(self._entries) > PRODUCERS_MAX:
            self._entries.popitem(last=False)
