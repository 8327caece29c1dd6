"""Offset commits, types 0 and 1 (docs/spec/offsets-and-log.md#5.1).

Value v0: offset int64, metadata string, commit timestamp int64. v1 adds the expire timestamp
(int64), v2 drops it, v3 adds the leader epoch (int32) after the offset, v4 is flexible and adds
the topic id as tag 0. Type 0 has v0 only and is never written.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from groupd.protocol.messages import NO_TOPIC_ID, TopicId, shared_topic_id
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue
from groupd.protocol.records.varints import zigzag
from groupd.protocol.records.versioned import TOPIC_ID, UnknownVersion, VersionedValue
from groupd.protocol.schema import struct
from groupd.protocol.writer import Writer

WRITTEN_VERSIONS = (1, 3, 4)

_TOPIC_ID_TAG = 0
_KEY_TYPE = 1
_PARTITION = Struct(">i")
# The value v4 without metadata: version, offset, leader epoch, length of the metadata + 1, commit
# timestamp, number of tagged fields. The tagged field of the topic id: number of tagged fields,
# tag, size, id.
_BARE = Struct(">hqiBqB")
_BARE_END = Struct(">Bq3s16s")
BARE_VALUE_BYTES = 42
"""The size of a value v4 without metadata and with a topic id."""
BARE_VALUE_START = zigzag(BARE_VALUE_BYTES) + b"\x00\x04"
"""That size as a record has it, and the version. Offset and leader epoch are next."""
_VERSION_0 = b"\0\0"
_TAGS_AT = _BARE.size - 1
_EMPTY = 1
_UUID_BYTES = 16
_TOPIC_ID_FIELD = bytes((1, _TOPIC_ID_TAG, _UUID_BYTES))
_VALUE = VersionedValue(
    struct(
        OffsetCommitValue,
        "offset:int64 leader_epoch:int32@3+ metadata:string commit_timestamp_ms:int64 "
        "expire_timestamp_ms:int64@1 topic_id:id@4+#0",
        id=TOPIC_ID,
    ),
    read=range(5),
    flexible_from=4,
)


def encode_key(key: OffsetCommitKey) -> bytes:
    group, topic, partition = key
    return key_start(group, topic) + _PARTITION.pack(partition)


@lru_cache(maxsize=256)
def key_start(group: str, topic: str) -> bytes:
    """The bytes with which the keys of all partitions of a topic begin. They are cached, because a
    commit has a key for each partition."""
    writer = Writer(flexible=False)
    writer.int16(_KEY_TYPE)
    writer.string(group)
    writer.string(topic)
    return bytes(writer.buffer)


def encode_value(value: OffsetCommitValue, version: int | None = None) -> bytes:
    """`version` is 1, 3 or 4; fields that it does not have are dropped. If `version` is None, it is
    1 for a value with an expire timestamp, which later versions do not have, and 4 for all
    others."""
    if version is None:
        version = 4 if value.expire_timestamp_ms < 0 else 1
    if version not in WRITTEN_VERSIONS:
        raise ValueError(f"offset commit values are written as version 1, 3 or 4, not {version}")
    return _VALUE.encode(value, version)


def bare_value_end(commit_ms: int, topic_id: TopicId) -> bytes:
    """What follows the leader epoch in a value v4 without metadata."""
    return _BARE_END.pack(_EMPTY, commit_ms, _TOPIC_ID_FIELD, topic_id)


def decode_value(data: bytes) -> OffsetCommitValue:
    """Decodes a value of any known version. Raises READ_ERRORS."""
    if len(data) >= _BARE.size:
        # A log has millions of commits, and nearly all have one of these two forms.
        version, offset, leader_epoch, length, commit_ms, tags = _BARE.unpack_from(data)
        if version == 4 and length == _EMPTY:
            # `tuple.__new__` makes the value without a Python call.
            if not tags and len(data) == _BARE.size:
                fields = (offset, leader_epoch, "", commit_ms, -1, NO_TOPIC_ID)
                return tuple.__new__(OffsetCommitValue, fields)
            if data[_TAGS_AT:-_UUID_BYTES] == _TOPIC_ID_FIELD:
                topic_id = shared_topic_id(data[-_UUID_BYTES:])
                fields = (offset, leader_epoch, "", commit_ms, -1, topic_id)
                return tuple.__new__(OffsetCommitValue, fields)
    value: OffsetCommitValue = _VALUE.decode(data)
    return value


def decode_legacy_value(data: bytes) -> OffsetCommitValue:
    """Decodes the value of a key of type 0: v0 only. Raises READ_ERRORS."""
    if data[:2] != _VERSION_0:
        raise UnknownVersion(int.from_bytes(data[:2], "big", signed=True))
    return decode_value(data)
