"""Metadata of a transactional id <-> its record in `__transaction_state`."""

from __future__ import annotations

from groupd.coordinator.transactions.metadata import TransactionMetadata, TransactionState
from groupd.protocol.messages import TopicPartition
from groupd.protocol.records.codec import CorruptRecord
from groupd.protocol.records.transaction_records import (
    TransactionLogValue,
    decode_value,
    encode_key,
    encode_value,
)

VALUE_VERSION = 1


def to_record(
    transactional_id: str, metadata: TransactionMetadata | None
) -> tuple[bytes, bytes | None]:
    """Key and value; without metadata a tombstone."""
    key = encode_key(transactional_id)
    return key, None if metadata is None else encode_value(_to_value(metadata), VALUE_VERSION)


def from_value(data: bytes) -> TransactionMetadata:
    """Raises CorruptRecord."""
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
    """Topics with their partitions, sorted."""
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return tuple([(topic, tuple(indexes)) for topic, indexes in found.items()])
