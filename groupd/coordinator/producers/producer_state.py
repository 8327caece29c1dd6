"""What a log remembers of its producers (KIP-98): duplicates, gaps, fencing, open transactions. The
rules are Kafka's.

For each producer id: its epoch and its last five batches. A batch with the same sequence range as
one of them is a duplicate and is answered with the offset of the first append. An older epoch is
refused with INVALID_PRODUCER_EPOCH; a newer one must start at sequence 0; otherwise the sequence
must follow the last one (else OUT_OF_ORDER_SEQUENCE_NUMBER). A producer that is not known may start
at any sequence: its records may have been deleted (KIP-360), so UNKNOWN_PRODUCER_ID is never
answered.

A transactional batch needs an open transaction of its producer and epoch, or a `Verification` that
is still valid. A marker ends the transaction. In transaction version 2 a marker has an epoch that
is one higher, so that no late marker can end a later transaction (KIP-890, KIP-1228).

Producers without an open transaction are forgotten when their last batch is old (`expire`). If a
log has more than `PRODUCERS_MAX` the ones that wrote least recently are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from msgspec import Struct, field

from groupd.coordinator.producers.transaction_index import TransactionIndex
from groupd.coordinator.producers.transactions import Marker
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import BatchHeader, decode_marker, iter_records

# Verifications ------------------------------------------------------------------------------

# The question whether a transaction is open takes time. Meanwhile a marker may end the transaction,
# and then the answer does not count any more (KIP-890). So each question has an object. Any append
# for the producer removes it, and the append that asked must show that its object is still there.
# The object also remembers the lowest sequence that waits for an answer, so that a later batch does
# not overtake one that has to be sent again.


class Verification:
    """The question whether one producer's transaction is open. `bumps_epoch`: transaction version
    2, where every transaction has its own epoch, and so its own sequences."""

    __slots__ = ("bumps_epoch", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, lowest_sequence: int, bumps_epoch: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = lowest_sequence
        self.bumps_epoch = bumps_epoch


class Verifications:
    """The verifications under way, by producer id. If there are more than `limit` the oldest are
    dropped; their producers try again."""

    __slots__ = ("_by_producer", "_limit")

    def __init__(self, limit: int) -> None:
        self._by_producer: OrderedDict[int, Verification] = OrderedDict()
        self._limit = limit

    def start(self, producer_id: int, epoch: int, sequence: int, bumps_epoch: bool) -> Verification:
        """Returns the verification of a producer. Several batches of one producer share it."""
        entry = self._by_producer.get(producer_id)
        if entry is None:
            entry = self._by_producer[producer_id] = Verification(epoch, sequence, bumps_epoch)
            if len(self._by_producer) > self._limit:
                self._by_producer.popitem(last=False)
        elif epoch > entry.epoch:
            entry.epoch, entry.lowest_sequence = epoch, sequence
        elif epoch == entry.epoch:
            entry.lowest_sequence = min(entry.lowest_sequence, sequence)
        return entry

    def holds(self, producer_id: int, verification: Verification | None) -> bool:
        return verification is not None and self._by_producer.get(producer_id) is verification

    def check_sequence(self, header: BatchHeader, *, has_batches: bool) -> None:
        """Raises ApiError OUT_OF_ORDER_SEQUENCE_NUMBER while an earlier batch is missing."""
        entry = self._by_producer.get(header.producer_id)
        if entry is None:
            return
        lowest = entry.lowest_sequence
        if entry.bumps_epoch and not has_batches:
            lowest = 0
        if header.base_sequence > lowest:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id}: "
                f"{header.base_sequence} (incoming), {lowest} (earliest seen)",
            )

    def clear(self, producer_id: int) -> None:
        self._by_producer.pop(producer_id, None)

    def ended(self, producer_id: int, epoch: int) -> None:
        """A marker with `epoch` was written, so the producer's verification ends. In version 2
        `epoch` is the epoch of the next transaction. If the verification is for that transaction
        already, it stays."""
        entry = self._by_producer.get(producer_id)
        if entry is not None and not (entry.bumps_epoch and entry.epoch == epoch):
            del self._by_producer[producer_id]


# Producers ----------------------------------------------------------------------------------

BATCHES_REMEMBERED = 5
PRODUCERS_MAX = 10000
_INT_MAX = 2**31 - 1
_EPOCH_MAX = 2**15 - 1


class ProducedBatch(Struct, frozen=True):
    """One batch of a producer: sequences and offsets, all inclusive. `timestamp_ms`: the time of
    the append with LogAppendTime, else -1."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry(Struct):
    """What is known of one producer. `transaction_offset`: where its open transaction begins; None
    if there is none."""

    epoch: int
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    transaction_offset: int | None = None
    batches: deque[ProducedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    def enter(self, epoch: int) -> None:
        """Set the epoch to `epoch`. If it is a new one the batches are forgotten, because sequences
        count per epoch."""
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches.clear()


def last_sequence(first: int, records: int) -> int:
    """Returns the sequence of the last of `count` records. Sequences wrap from 2^31 - 1 to 0."""
    return (first + records - 1) & _INT_MAX


class ProducerStates:
    """The producers of one log and their transactions."""

    __slots__ = ("_entries", "_verifications", "transactions")

    def __init__(self) -> None:
        self._entries: OrderedDict[int, ProducerEntry] = OrderedDict()
        self._verifications = Verifications(PRODUCERS_MAX)
        self.transactions = TransactionIndex()

    @property
    def count(self) -> int:
        """How many producers are known. Aborted transactions may be known even if there are
        none."""
        return len(self._entries)

    def active(self) -> list[tuple[int, ProducerEntry]]:
        """Returns every known producer with its id, in no order."""
        return list(self._entries.items())

    # Transactions -------------------------------------------------------------------------

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_offset is not None and entry.epoch == epoch

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, bumps_epoch: bool
    ) -> Verification | None:
        """Begin a verification before the first write of a transaction to this log. Returns the
        object that `check` needs after the coordinator's answer; None if the transaction is open
        already. `bumps_epoch`: transaction version 2. Raises ApiError INVALID_PRODUCER_EPOCH."""
        self._check_epoch(producer_id, epoch)
        if self.in_transaction(producer_id, epoch):
            return None
        return self._verifications.start(producer_id, epoch, sequence, bumps_epoch)

    def check_verified(
        self, producer_id: int, epoch: int, verification: Verification | None
    ) -> None:
        """Check that the producer may write into its transaction. Raises ApiError
        INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE."""
        if self.in_transaction(producer_id, epoch):
            return
        self._check_epoch(producer_id, epoch)
        if not self._verifications.holds(producer_id, verification):
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )

    # Data ---------------------------------------------------------------------------------

    def _duplicate_of(self, header: BatchHeader) -> ProducedBatch | None:
        """Returns the earlier append of the same batch; None if there is none."""
        entry = self._entries.get(header.producer_id)
        if header.producer_id < 0 or entry is None or entry.epoch != header.producer_epoch:
            return None
        first = header.base_sequence
        last = last_sequence(first, header.record_count)
        for batch in entry.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def check(
        self,
        header: BatchHeader,
        verification: Verification | None = None,
        *,
        enforced: bool = False,
    ) -> ProducedBatch | None:
        """Returns the earlier append if this batch is a duplicate, None if it may be appended.
        `enforced`: a transactional batch must belong to a transaction that is open or verified.
        Raises ApiError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
        INVALID_TXN_STATE."""
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        duplicate = self._duplicate_of(header)
        if duplicate is not None:
            return duplicate
        self._check_epoch(producer_id, header.producer_epoch)
        if enforced and header.is_transactional:
            self.check_verified(producer_id, header.producer_epoch, verification)
        entry = self._entries.get(producer_id)
        self._verifications.check_sequence(header, has_batches=bool(entry and entry.batches))
        if entry is None:
            return None
        expected = 0
        if header.producer_epoch == entry.epoch:
            expected = (entry.last_sequence + 1) & _INT_MAX
        if header.base_sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id}: "
                f"{header.base_sequence} (incoming), {expected} (expected)",
            )
        if entry.transaction_offset is not None and not header.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id}",
            )
        return None

    def _check_epoch(self, producer_id: int, epoch: int) -> None:
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last "
                f"seen epoch {entry.epoch}",
            )

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a batch of data that got `base_offset`, live or while the log is read."""
        producer_id = header.producer_id
        if producer_id < 0 or header.is_control or header.base_sequence < 0:
            return
        entry = self._entry(producer_id, header.producer_epoch)
        entry.batches.append(
            ProducedBatch(
                header.base_sequence,
                # Computed from the header, not from the number of records: compaction may have
                # removed some.
                last_sequence(header.base_sequence, header.last_offset_delta + 1),
                base_offset,
                base_offset + header.last_offset_delta,
                header.max_timestamp_ms if header.is_log_append_time else -1,
            )
        )
        entry.last_timestamp_ms = header.max_timestamp_ms
        if header.is_transactional:
            self._in_open_transaction(producer_id, entry, base_offset)

    def written(
        self, producer_id: int, epoch: int, base_offset: int, records: int, timestamp_ms: int
    ) -> None:
        """Remember a transactional batch that a coordinator wrote for a producer. Its sequences are
        not checked."""
        entry = self._entry(producer_id, epoch)
        last = records - 1
        entry.batches.append(ProducedBatch(0, last, base_offset, base_offset + last, -1))
        entry.last_timestamp_ms = timestamp_ms
        self._in_open_transaction(producer_id, entry, base_offset)

    def _in_open_transaction(self, producer_id: int, entry: ProducerEntry, offset: int) -> None:
        """Remember transactional data at `offset`. It begins the transaction if it is the first."""
        self._verifications.clear(producer_id)
        if entry.transaction_offset is None:
            entry.transaction_offset = offset
            self.transactions.begin(producer_id, offset)

    def _entry(self, producer_id: int, epoch: int) -> ProducerEntry:
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(epoch)
        entry.enter(epoch)
        self._entries.move_to_end(producer_id)
        if len(self._entries) > PRODUCERS_MAX:
            self._forget_oldest()
        return entry

    def _forget_oldest(self) -> None:
        for _ in range(len(self._entries)):
            producer_id, entry = self._entries.popitem(last=False)
            if entry.transaction_offset is None:
                return
            self._entries[producer_id] = entry

    def expire(self, before_ms: int) -> int:
        """Forget the producers whose last record has a timestamp of `before_ms` or less, but none
        with an open transaction. Returns how many were forgotten."""
        idle = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.last_timestamp_ms <= before_ms and entry.transaction_offset is None
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    # Markers ------------------------------------------------------------------------------

    def check_marker(self, marker: Marker) -> None:
        """Check that the marker may be appended. Raises ApiError INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED.

        A marker of version 2 at the last seen epoch is a retry if no transaction is open, and is
        appended again (KAFKA-19999).
        """
        entry = self._entries.get(marker.producer_id)
        if entry is None:
            return
        bumped = marker.transaction_version >= 2
        if bumped and marker.producer_epoch == entry.epoch:
            stale = entry.transaction_offset is not None and entry.epoch != _EPOCH_MAX
        else:
            stale = marker.producer_epoch < entry.epoch
        if stale:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {marker.producer_epoch} of a marker of producer {marker.producer_id} is "
                f"not above the last seen epoch {entry.epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {marker.coordinator_epoch} for producer "
                f"{marker.producer_id} is older than {entry.coordinator_epoch}",
            )

    def marked(self, marker: Marker, offset: int, timestamp_ms: int) -> None:
        """The marker was appended at `offset`: end the producer's transaction, if any."""
        self._end(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            offset,
            timestamp_ms,
            committed=marker.committed,
        )

    def replay(self, payload: bytes, header: BatchHeader) -> None:
        """Apply one stored batch, data or marker. Raises CorruptBatch."""
        if not header.is_control:
            self.appended(header, header.base_offset)
            return
        for record in iter_records(payload):
            found = decode_marker(record)
            if found is not None:
                self._end(
                    header.producer_id,
                    header.producer_epoch,
                    found.coordinator_epoch,
                    record.offset,
                    record.timestamp_ms,
                    committed=found.committed,
                )

    def _end(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp_ms: int,
        *,
        committed: bool,
    ) -> None:
        entry = self._entry(producer_id, epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp_ms = timestamp_ms
        self._verifications.ended(producer_id, epoch)
        first, entry.transaction_offset = entry.transaction_offset, None
        if first is not None:
            self.transactions.end(producer_id, first, offset, committed=committed)
