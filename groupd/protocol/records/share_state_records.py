"""Records of `__share_group_state` (docs/spec/share-group.md#3): Kafka's ShareSnapshot and
ShareUpdate.

Key: type 0 (snapshot) or 1 (update), group, topic id, partition. A snapshot without a value says
that the share-partition has no state any more. Bytes after the end are corruption; unknown tagged
fields are not.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_state import ShareStateBatch
from groupd.protocol.reader import READ_ERRORS, what_is_wrong
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType, record_type
from groupd.protocol.records.versioned import TOPIC_ID, UnknownVersion, VersionedValue
from groupd.protocol.schema import struct

SNAPSHOT, UPDATE = range(2)
"""Types of keys."""


class SharePartitionKey(NamedTuple):
    """A partition of a topic as one share group sees it."""

    group_id: str
    topic_id: TopicId
    partition: int


class ShareSnapshot(Struct, frozen=True):
    """The whole state of a share-partition. `batches` are sorted and do not overlap."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: tuple[ShareStateBatch, ...] = ()
    delivery_complete_count: int = -1


class ShareUpdate(Struct, frozen=True):
    """What is new since the snapshot with this epoch. `leader_epoch` and `start_offset` -1:
    unchanged."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[ShareStateBatch, ...] = ()
    delivery_complete_count: int = -1


ShareStateValue = ShareSnapshot | ShareUpdate | None
"""The value of a record; None: the tombstone."""

_KEY_FIELDS = struct(SharePartitionKey, "group_id:string topic_id:id partition:int32", id=TOPIC_ID)
_KEY = VersionedValue(_KEY_FIELDS, read=range(2), flexible_from=2)
_BATCH = struct(
    ShareStateBatch, "first_offset:int64 last_offset:int64 delivery_state:int8 delivery_count:int16"
)
_VALUES = (
    VersionedValue(
        struct(
            ShareSnapshot,
            "snapshot_epoch:int32 state_epoch:int32 leader_epoch:int32 start_offset:int64 "
            "create_timestamp_ms:int64 write_timestamp_ms:int64 batches:[]batch "
            "delivery_complete_count:int32#0",
            batch=_BATCH,
        )
    ),
    VersionedValue(
        struct(
            ShareUpdate,
            "snapshot_epoch:int32 leader_epoch:int32 start_offset:int64 batches:[]batch "
            "delivery_complete_count:int32#0",
            batch=_BATCH,
        )
    ),
)


def encode_record(key: SharePartitionKey, value: ShareStateValue) -> tuple[bytes, bytes | None]:
    """Returns key and value as bytes. Raises ValueError for a group of more than 32767 bytes."""
    kind = UPDATE if isinstance(value, ShareUpdate) else SNAPSHOT
    # The type of the key stands where a value has its version.
    return _KEY.encode(key, kind), None if value is None else _VALUES[kind].encode(value)


def decode_record(key: bytes, value: bytes | None) -> tuple[SharePartitionKey, ShareStateValue]:
    """Raises UnknownRecordType; CorruptRecord, also for a value version that is not known and for
    an update without a value."""
    try:
        of: SharePartitionKey = _KEY.decode(key)
    except UnknownVersion as error:
        raise UnknownRecordType(error.version) from error
    except READ_ERRORS as error:
        raise CorruptRecord(f"key of a share-partition: {what_is_wrong(error)}") from error
    kind = record_type(key)
    if value is None:
        if kind == UPDATE:
            raise CorruptRecord(f"an update without a value for {of}")
        return of, None
    try:
        decoded: ShareStateValue = _VALUES[kind].decode(value)
    except UnknownVersion as error:
        raise CorruptRecord(f"state of version {error.version} for {of}") from error
    except READ_ERRORS as error:
        raise CorruptRecord(f"state of {of}: {what_is_wrong(error)}") from error
    return of, decoded
