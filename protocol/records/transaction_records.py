"""Records of `__transaction_state`: Kafka's TransactionLogKey and TransactionLogValue.

Key: type 0, transactional id. Value v0: producer id int64, epoch int16, timeout int32, state int8,
partitions by topic (null in state Empty), last update and start int64. v1 is flexible and has tags
0 previous producer id, 1 next producer id, 2 the client's transaction version, 3 a next epoch
that Kafka defines and does not use; tags at their default are left out.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.records.primitives import (
    COMPACT_NULL,
    INT16,
    INT32,
    INT64,
    BadBytes,
    Reader,
    compact_array,
    compact_int32_array,
    compact_string,
    string,
    uvarint,
)

TRANSACTION_LOG = 0
READ_VERSIONS = range(2)
PREVIOUS_PRODUCER_ID_TAG, NEXT_PRODUCER_ID_TAG, CLIENT_VERSION_TAG = 0, 1, 2

_FIXED = struct.Struct(">hqhib")
_TIMES = struct.Struct(">qq")
_NULL_ARRAY = b"\xff\xff\xff\xff"
_BAD_BYTES = (struct.error, IndexError, ValueError, OverflowError)


class TransactionLogValue(Struct, frozen=True):
    """`partitions`: (topic, partitions) pairs; None in state Empty."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = -1
    next_producer_id: int = -1
    client_version: int = 0


def encode_key(transactional_id: str) -> bytes:
    """Raises ValueError beyond 32767 bytes."""
    return INT16.pack(TRANSACTION_LOG) + string(transactional_id)


def decode_key(data: bytes) -> str:
    """The transactional id. Raises UnknownRecordType, CorruptRecord."""
    try:
        reader = Reader(data)
        record_type = reader.int16()
        if record_type != TRANSACTION_LOG:
            raise UnknownRecordType(record_type)
        transactional_id = reader.string()
        reader.end()
    except _BAD_BYTES as error:
        raise CorruptRecord(f"transaction key: {error}") from error
    return transactional_id


def encode_value(value: TransactionLogValue, version: int) -> bytes:
    """`version` 0 or 1; version 0 drops what it cannot hold."""
    fixed = _FIXED.pack(
        version, value.producer_id, value.producer_epoch, value.timeout_ms, value.state
    )
    times = _TIMES.pack(value.last_update_ms, value.start_ms)
    if version == 1:
        return fixed + _flexible_partitions(value) + times + _tags(value)
    return fixed + _plain_partitions(value) + times


def _flexible_partitions(value: TransactionLogValue) -> bytes:
    if value.partitions is None:
        return COMPACT_NULL
    return compact_array(
        value.partitions,
        lambda topic: compact_string(topic[0]) + compact_int32_array(topic[1]) + b"\x00",
    )


def _plain_partitions(value: TransactionLogValue) -> bytes:
    if value.partitions is None:
        return _NULL_ARRAY
    parts = [INT32.pack(len(value.partitions))]
    for name, partitions in value.partitions:
        parts += [
            string(name),
            struct.Struct(f">i{len(partitions)}i").pack(len(partitions), *partitions),
        ]
    return b"".join(parts)


def _tags(value: TransactionLogValue) -> bytes:
    tags = []
    if value.previous_producer_id != -1:
        tags.append((PREVIOUS_PRODUCER_ID_TAG, INT64.pack(value.previous_producer_id)))
    if value.next_producer_id != -1:
        tags.append((NEXT_PRODUCER_ID_TAG, INT64.pack(value.next_producer_id)))
    if value.client_version != 0:
        tags.append((CLIENT_VERSION_TAG, INT16.pack(value.client_version)))
    body = [uvarint(tag) + uvarint(len(payload)) + payload for tag, payload in tags]
    return uvarint(len(tags)) + b"".join(body)


def decode_value(data: bytes) -> TransactionLogValue:
    """Raises CorruptRecord, also for a version that is not known."""
    try:
        reader = Reader(data)
        version = reader.int16()
        if version not in READ_VERSIONS:
            raise CorruptRecord(f"transaction value of version {version}")
        reader.flexible = version == 1
        value = _read_value(reader)
        reader.end()
    except _BAD_BYTES as error:
        raise CorruptRecord(f"transaction value: {error}") from error
    return value


def _read_value(reader: Reader) -> TransactionLogValue:
    producer_id, producer_epoch = reader.int64(), reader.int16()
    timeout_ms, state = reader.int32(), reader.int8()
    partitions = _read_partitions(reader)
    last_update_ms, start_ms = reader.int64(), reader.int64()
    previous, following, client_version = -1, -1, 0
    for tag, payload in reader.tags():
        if tag == PREVIOUS_PRODUCER_ID_TAG:
            previous = payload.int64()
        elif tag == NEXT_PRODUCER_ID_TAG:
            following = payload.int64()
        elif tag == CLIENT_VERSION_TAG:
            client_version = payload.int16()
        else:
            continue
        payload.end()
    return TransactionLogValue(
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        partitions,
        last_update_ms,
        start_ms,
        previous,
        following,
        client_version,
    )


def _read_partitions(reader: Reader) -> tuple[tuple[str, tuple[int, ...]], ...] | None:
    count = reader.uvarint() - 1 if reader.flexible else reader.int32()
    if count < -1:
        raise BadBytes(f"array of {count}")
    if count == -1:
        return None
    return tuple([_read_topic(reader) for _ in range(count)])


def _read_topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    topic = (reader.string(), reader.int32_array())
    reader.end_struct()
    return topic
