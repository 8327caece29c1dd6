"""Offset commits, types 0 and 1 (spec: offsets and log, section 5.1).

One record per partition of every commit, so both directions avoid all detours.

Value v0: offset int64, metadata string, commit timestamp int64. v1 adds the expire timestamp
(int64), v2 drops it, v3 adds the leader epoch (int32) after the offset, v4 is flexible and adds
the topic id as tag 0. Type 0 has v0 only and is never written.
"""

from __future__ import annotations

from struct import Struct

from protocol.messages import NO_TOPIC_ID
from protocol.records.primitives import (
    INT32,
    NO_TAGS,
    BadBytes,
    Reader,
    compact_string,
    string,
    tagged,
)
from protocol.records.schema import OffsetCommitKey, OffsetCommitValue

TOPIC_ID_TAG = 0
READ_VERSIONS = range(5)

_OFFSET = Struct(">hq")
_OFFSET_EPOCH = Struct(">hqi")
_TIMESTAMP = Struct(">q")
_TWO_TIMESTAMPS = Struct(">qq")


def encode_key(key: OffsetCommitKey) -> bytes:
    return b"\x00\x01" + string(key.group) + string(key.topic) + INT32.pack(key.partition)


def decode_key(reader: Reader) -> OffsetCommitKey:
    return OffsetCommitKey(reader.string(), reader.string(), reader.int32())


def written_version(value: OffsetCommitValue) -> int:
    """v1 is the only version that holds an expire timestamp; it loses epoch and topic id."""
    return 1 if value.expire_timestamp_ms >= 0 else 4


def encode_value(value: OffsetCommitValue, version: int) -> bytes:
    """`version` 1, 3 or 4; what a version cannot hold is dropped."""
    if version == 4:
        return (
            _OFFSET_EPOCH.pack(4, value.offset, value.leader_epoch)
            + compact_string(value.metadata)
            + _TIMESTAMP.pack(value.commit_timestamp_ms)
            + (NO_TAGS if value.topic_id == NO_TOPIC_ID else tagged(TOPIC_ID_TAG, value.topic_id))
        )
    if version == 3:
        return (
            _OFFSET_EPOCH.pack(3, value.offset, value.leader_epoch)
            + string(value.metadata)
            + _TIMESTAMP.pack(value.commit_timestamp_ms)
        )
    if version == 1:
        return (
            _OFFSET.pack(1, value.offset)
            + string(value.metadata)
            + _TWO_TIMESTAMPS.pack(value.commit_timestamp_ms, value.expire_timestamp_ms)
        )
    raise ValueError(f"offset commit values are written as version 1, 3 or 4, not {version}")


def decode_value(reader: Reader, version: int) -> OffsetCommitValue:
    reader.flexible = version >= 4
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    topic_id = NO_TOPIC_ID
    for tag, payload in reader.tags():
        if tag == TOPIC_ID_TAG:
            if len(payload.data) != 16:
                raise BadBytes("topic id of a wrong size")
            topic_id = payload.data
    return OffsetCommitValue(
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id
    )
