"""Records of `__transaction_state`: Kafka's TransactionLogKey and TransactionLogValue.

Key: type 0, transactional id. Value v1 is flexible and adds the tagged fields. Kafka also defines
tag 3, a next epoch, and does not use it. A tagged field that has its default is not written.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.protocol.reader import READ_ERRORS, what_is_wrong
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.records.versioned import UnknownVersion, VersionedValue
from groupd.protocol.schema import struct


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


# The type of the key stands where a value has its version.
_KEY = VersionedValue(struct(None, "transactional_id:string"), flexible_from=1)
_VALUE = VersionedValue(
    struct(
        TransactionLogValue,
        "producer_id:int64 producer_epoch:int16 timeout_ms:int32 state:int8 partitions:[]topic? "
        "last_update_ms:int64 start_ms:int64 previous_producer_id:int64@1+#0 "
        "next_producer_id:int64@1+#1 client_version:int16@1+#2",
        topic=struct(tuple, "0:string 1:[]int32"),
    ),
    read=range(2),
    flexible_from=1,
)


def encode_key(transactional_id: str) -> bytes:
    """Encodes the key. Raises ValueError for an id of more than 32767 bytes."""
    return _KEY.encode(transactional_id)


def decode_key(data: bytes) -> str:
    """Returns the transactional id. Raises UnknownRecordType, CorruptRecord."""
    try:
        transactional_id: str = _KEY.decode(data)
    except UnknownVersion as error:
        raise UnknownRecordType(error.version) from error
    except READ_ERRORS as error:
        raise CorruptRecord(f"transaction key: {what_is_wrong(error)}") from error
    return transactional_id


def encode_value(value: TransactionLogValue, version: int) -> bytes:
    """`version` is 0 or 1. Fields that version 0 does not have are dropped."""
    return _VALUE.encode(value, version)


def decode_value(data: bytes) -> TransactionLogValue:
    """Decodes a value. Raises CorruptRecord, also for a version that is not known."""
    try:
        value: TransactionLogValue = _VALUE.decode(data)
    except UnknownVersion as error:
        raise CorruptRecord(f"transaction value of version {error.version}") from error
    except READ_ERRORS as error:
        raise CorruptRecord(f"transaction value: {what_is_wrong(error)}") from error
    return value
