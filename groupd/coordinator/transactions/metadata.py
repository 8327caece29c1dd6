"""The durable state of one transactional id, how it may change, what a request leads to, and its
record in `__transaction_state`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.records.codec import CorruptRecord
from groupd.protocol.records.transaction_records import (
    TransactionLogValue,
    decode_value,
    encode_key,
    encode_value,
)

# Metadata -----------------------------------------------------------------------------------

# Values are frozen: every method that changes something returns the next value, which takes effect
# once its record is durable. The largest epoch that a producer ever gets is `LAST_EPOCH`. One more
# is left, so that the producer can always be fenced. With transaction version 2 (KIP-890) the end
# of every transaction takes a new epoch. When they run out, the next producer id is decided when
# the end is prepared, and takes effect when it is complete.

EPOCH_MAX = 2**15 - 1
LAST_EPOCH = EPOCH_MAX - 1
NO_EPOCH = -1
NO_PRODUCER_ID = -1
EPOCH_BUMPS = 2
"""The transaction version from which every transaction ends with a new epoch."""


class TransactionState(IntEnum):
    """The states of a transactional id, with Kafka's codes and names. The codes are in the log,
    except those of `Dead` (an id that is being deleted) and `PrepareEpochFence` (a state within one
    step)."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
        return _NAMES[self]


_NAMES: Mapping[TransactionState, str] = {
    state: "".join(part.title() for part in state.name.split("_")) for state in TransactionState
}

STATES_BY_NAME: Mapping[str, TransactionState] = {name: state for state, name in _NAMES.items()}

PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""States in which the end is decided and the markers are being written."""

AT_REST = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""States without an open transaction: a new one may begin, and the id may expire."""


class TransactionMetadata(Struct, frozen=True):
    """The durable state of a transactional id. `previous_producer_id`: the producer id before the
    last change. `next_producer_id`: the one that takes over when the end is complete; -1 if there
    is none. `last_producer_epoch`: the epoch that a retried InitProducerId may have; it is not in
    the log, so a restart forgets it. `start_ms`: -1 without a transaction. `client_version`: the
    client's transaction version, 0 or 2."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        """Whether the transaction that ends now was written with transaction version 2."""
        return self.client_version >= EPOCH_BUMPS

    def initialised(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TransactionMetadata:
        """Returns the value with the next epoch, for InitProducerId (KIP-360). `expected_epoch`:
        the epoch that the producer believes to have; if it is `last_producer_epoch` the producer
        did not get our last answer. Raises PRODUCER_FENCED."""
        retried = expected_epoch == self.last_producer_epoch != NO_EPOCH
        if (
            expected_epoch is not None
            and self.producer_epoch != NO_EPOCH
            and expected_epoch != self.producer_epoch
        ):
            if not retried:
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            epoch, last = self.producer_epoch, self.last_producer_epoch
        else:
            last = NO_EPOCH if expected_epoch is None else self.producer_epoch
            epoch = self.producer_epoch + 1
        return self._emptied(timeout_ms, now_ms, producer_epoch=epoch, last_producer_epoch=last)

    def rotated(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, record_last: bool
    ) -> TransactionMetadata:
        """Returns the value with a new producer id, for InitProducerId when epochs have run out."""
        last = self.producer_epoch if record_last else NO_EPOCH
        return self._emptied(
            timeout_ms,
            now_ms,
            producer_id=producer_id,
            producer_epoch=0,
            last_producer_epoch=last,
        )

    def _emptied(self, timeout_ms: int, now_ms: int, **changes: Any) -> TransactionMetadata:
        return self._changed(
            state=TransactionState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
            last_update_ms=now_ms,
            **changes,
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], client_version: int, now_ms: int
    ) -> TransactionMetadata:
        """Returns the value with `added` in the ongoing transaction, which begins now if there is
        none."""
        ongoing = self.state is TransactionState.ONGOING
        return self._changed(
            state=TransactionState.ONGOING,
            partitions=self.partitions.union(added),
            start_ms=self.start_ms if ongoing else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, commit: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> TransactionMetadata:
        """Returns the value after the decision. If there was no transaction (only possible with an
        abort in version 2) it begins now."""
        state = TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_BUMPS:
            epoch, last = min(self.producer_epoch + 1, EPOCH_MAX), self.producer_epoch
        return self._changed(
            state=state,
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self) -> TransactionMetadata:
        """Returns the value with the epoch that fences the producer, for an abort in version 1. No
        producer gets that epoch."""
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, EPOCH_MAX),
            last_producer_epoch=NO_EPOCH,
        )

    def completed(self, now_ms: int) -> TransactionMetadata:
        """Returns the value after the end of the transaction, when every partition has its
        marker."""
        assert self.state in PREPARED
        committed = self.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._changed(
            state=TransactionState.COMPLETE_COMMIT
            if committed
            else TransactionState.COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )

    def _changed(self, **changes: Any) -> TransactionMetadata:
        return replace(self, previous_producer_id=self.producer_id, **changes)


# What a request leads to --------------------------------------------------------------------


class NeedsProducerId(Exception):
    """The request needs a new producer id: get one and ask again. Nothing has changed."""


class TransactionAnswer(Struct, frozen=True):
    """An error; or NONE, with producer id and epoch if the reply has them."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class TransactionChange(Struct, frozen=True):
    """Make `metadata` durable (None: the id is deleted); then send `answer`. Until then the id
    takes no other change."""

    transactional_id: str
    metadata: TransactionMetadata | None
    answer: TransactionAnswer = TransactionAnswer()


TransactionStep = TransactionAnswer | TransactionChange
"""What a request leads to. If it changes nothing, the answer is sent at once."""

# The record ---------------------------------------------------------------------------------

VALUE_VERSION = 1


def to_record(
    transactional_id: str, metadata: TransactionMetadata | None
) -> tuple[bytes, bytes | None]:
    """Returns key and value of the record; without metadata a tombstone."""
    key = encode_key(transactional_id)
    return key, None if metadata is None else encode_value(_to_value(metadata), VALUE_VERSION)


def from_value(data: bytes) -> TransactionMetadata:
    """Returns the metadata in a record's value. Raises CorruptRecord."""
    value = decode_value(data)
    try:
        state = TransactionState(value.state)
    except ValueError as error:
        raise CorruptRecord(f"transaction state {value.state}") from error
    return TransactionMetadata(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        last_update_ms=value.last_update_ms,
        state=state,
        partitions=frozenset(
            (topic, partition)
            for topic, partitions in value.partitions or ()
            for partition in partitions
        ),
        start_ms=value.start_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_version,
    )


def _to_value(metadata: TransactionMetadata) -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        timeout_ms=metadata.timeout_ms,
        state=metadata.state,
        partitions=None
        if metadata.state is TransactionState.EMPTY
        else by_topic(metadata.partitions),
        last_update_ms=metadata.last_update_ms,
        start_ms=metadata.start_ms,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        client_version=metadata.client_version,
    )


def by_topic(
    partitions: frozenset[TopicPartition] | set[TopicPartition],
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Returns topics with their partitions, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return tuple([(topic, tuple(indexes)) for topic, indexes in found.items()])
