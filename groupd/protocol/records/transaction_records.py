"""Records of `__transaction_state`: Kafka's TransactionLogKey and TransactionLogValue.

Key: type 0, transactional id. Value v0: producer id int64, epoch int16, timeout int32, state int8,
partitions by topic (null in state Empty), last update and start int64. v1 is flexible and has the
tags 0 previous producer id, 1 next producer id, 2 the client's transaction version, 3 a next epoch
that Kafka defines but does not use. A tagged field that has its default is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct as Layout

from msgspec import Struct

from groupd.protocol.reader import READ_ERRORS, Reader, what_is_wrong
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.writer import Writer

TRANSACTION_LOG = 0
READ_VERSIONS = range(2)
FLEXIBLE_FROM = 1
PREVIOUS_PRODUCER_ID_TAG, NEXT_PRODUCER_ID_TAG, CLIENT_VERSION_TAG = 0, 1, 2

_INT16, _INT64 = Layout(">h"), Layout(">q")
_FIXED = Layout(">hqhib")
_TIMES = Layout(">qq")


class TransactionLogValue(Struct, frozen=True):
    """`partitions`: (topic, partitions) pairs; None in the state Empty."""

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
    """Encodes the key. Raises ValueError for an id of more than 32767 bytes."""
    writer = Writer(flexible=False)
    writer.int16(TRANSACTION_LOG)
    writer.string(transactional_id)
    return bytes(writer.buffer)


def decode_key(data: bytes) -> str:
    """Returns the transactional id. Raises UnknownRecordType, CorruptRecord."""
    try:
        reader = Reader(data, 0, 0, flexible=False)
        record_type = reader.int16()
        if record_type != TRANSACTION_LOG:
            raise UnknownRecordType(record_type)
        transactional_id = reader.string()
        reader.finish()
    except READ_ERRORS as error:
        raise CorruptRecord(f"transaction key: {what_is_wrong(error)}") from error
    return transactional_id


def encode_value(value: TransactionLogValue, version: int) -> bytes:
    """`version` is 0 or 1. Fields that version 0 does not have are dropped."""
    writer = Writer(version >= FLEXIBLE_FROM, version)
    writer.buffer += _FIXED.pack(
        version, value.producer_id, value.producer_epoch, value.timeout_ms, value.state
    )
    if value.partitions is None:
        writer.null_array()
    else:
        for name, partitions in writer.structs(value.partitions):
            writer.string(name)
            writer.int32_array(partitions)
    writer.buffer += _TIMES.pack(value.last_update_ms, value.start_ms)
    if version >= FLEXIBLE_FROM:
        _write_tags(writer, value)
    return bytes(writer.buffer)


def _write_tags(writer: Writer, value: TransactionLogValue) -> None:
    """Writes the end of the value: the tagged fields that do not have their default."""
    if value.previous_producer_id != -1:
        writer.tagged_field(PREVIOUS_PRODUCER_ID_TAG, _INT64.pack(value.previous_producer_id))
    if value.next_producer_id != -1:
        writer.tagged_field(NEXT_PRODUCER_ID_TAG, _INT64.pack(value.next_producer_id))
    if value.client_version != 0:
        writer.tagged_field(CLIENT_VERSION_TAG, _INT16.pack(value.client_version))
    writer.end()


def decode_value(data: bytes) -> TransactionLogValue:
    """Decodes a value. Raises CorruptRecord, also for a version that is not known."""
    try:
        reader = Reader(data, 0, 0, flexible=False)
        version = reader.int16()
        if version not in READ_VERSIONS:
            raise CorruptRecord(f"transaction value of version {version}")
        reader.flexible = version >= FLEXIBLE_FROM
        value = _read_value(reader)
        reader.finish()
    except READ_ERRORS as error:
        raise CorruptRecord(f"transaction value: {what_is_wrong(error)}") from error
    return value


def _read_value(reader: Reader) -> TransactionLogValue:
    producer_id, producer_epoch = reader.int64(), reader.int16()
    timeout_ms, state = reader.int32(), reader.int8()
    partitions = reader.nullable_structs(_read_topic)
    last_update_ms, start_ms = reader.int64(), reader.int64()
    tags = reader.tagged_fields()
    reader.end()
    return TransactionLogValue(
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        partitions,
        last_update_ms,
        start_ms,
        _tagged(tags, PREVIOUS_PRODUCER_ID_TAG, _INT64, -1),
        _tagged(tags, NEXT_PRODUCER_ID_TAG, _INT64, -1),
        _tagged(tags, CLIENT_VERSION_TAG, _INT16, 0),
    )


def _tagged(tags: Mapping[int, bytes], tag: int, layout: Layout, default: int) -> int:
    value: int
    (value,) = layout.unpack(tags[tag]) if tag in tags else (default,)
    return value


def _read_topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    return reader.string(), reader.int32_array()
