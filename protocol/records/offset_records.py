"""Offset commits, types 0 and 1 (spec: offsets and log, section 5.1).

One record per partition of every commit, so both directions avoid all detours.

Value v0: offset int64, metadata string, commit timestamp int64. v1 adds the expire timestamp
(int64), v2 drops it, v3 adds the leader epoch (int32) after the offset, v4 is flexible and adds
the topic id as tag 0. Type 0 has v0 only and is never written.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from sys import intern

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.primitives import (
    INT32,
    NO_TAGS,
    BadBytes,
    Reader,
    compact_string,
    string,
    tagged,
)
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue

TOPIC_ID_TAG = 0
READ_VERSIONS = range(5)

COMMIT_KEY = b"\x00\x01"
"""What keys as they are written today begin with."""

_OFFSET = Struct(">hq")
_OFFSET_EPOCH = Struct(">hqi")
_TIMESTAMP = Struct(">q")
_TWO_TIMESTAMPS = Struct(">qq")
_V4_HEAD = Struct(">hqiB")
_SHORTEST_V4 = 24
_TOPIC_ID_FIELD = b"\x01\x00\x10"
BARE_VALUE_BYTES = 42
# Behind group and topic: partition, size and fields of the value, no headers.
_BARE_CONTENT = Struct(">iBhqiBq3s16sx").pack


def encode_key(key: OffsetCommitKey) -> bytes:
    return key_prefix(key.group, key.topic) + INT32.pack(key.partition)


def key_prefix(group: str, topic: str) -> bytes:
    """What the keys of all partitions of a topic begin with."""
    return COMMIT_KEY + string(group) + string(topic)


def decode_key(reader: Reader) -> OffsetCommitKey:
    return OffsetCommitKey(reader.string(), reader.string(), reader.int32())


def written_version(value: OffsetCommitValue) -> int:
    """v1 is the only version that holds an expire timestamp; it loses epoch and topic id."""
    return 1 if value.expire_timestamp_ms >= 0 else 4


def encode_bare_content(opening: bytes, partition: int, value: OffsetCommitValue) -> bytes | None:
    """A whole record from its key on (`batch_records.encode_content`), if it is as nearly all are:
    without metadata, with a topic id. `opening`: size and prefix of its key. None: not so."""
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = value
    if metadata or expire_ms >= 0 or topic_id == NO_TOPIC_ID:
        return None
    return opening + _BARE_CONTENT(
        partition,
        2 * BARE_VALUE_BYTES,
        4,
        offset,
        leader_epoch,
        1,
        commit_ms,
        _TOPIC_ID_FIELD,
        topic_id,
    )


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


class CommitReader:
    """Decodes the offset commits of one log as they are written today (key type 1, value v4 or a
    tombstone). They are nearly all of a log, and neighbours mostly share group, topic and topic
    id: what repeats is not decoded again and stands in memory once."""

    __slots__ = ("_group", "_prefix", "_topic", "_topic_id")

    def __init__(self) -> None:
        self._prefix: bytes | None = None
        self._group = ""
        self._topic = ""
        self._topic_id = NO_TOPIC_ID

    def place(self, key: bytes) -> tuple[str, str, int] | None:
        """Group, topic and partition of a key; None: it is for `codec.decode_record`."""
        prefix = key[:-4]
        if prefix != self._prefix:
            if key[:2] != COMMIT_KEY:
                return None
            reader = Reader(key, 2)
            try:
                self._group, self._topic = reader.string(), intern(reader.string())
            except (struct_error, IndexError, ValueError):
                self._prefix = None
                return None
            if reader.position + 4 != len(key):
                self._prefix = None
                return None
            self._prefix = prefix
        (partition,) = INT32.unpack_from(key, len(key) - 4)
        return self._group, self._topic, partition

    def value(self, data: bytes) -> OffsetCommitValue | None:
        """None: it is for `codec.decode_record`, which also says what is wrong."""
        if len(data) < _SHORTEST_V4:
            return None
        version, offset, leader_epoch, length = _V4_HEAD.unpack_from(data)
        end = 14 + length
        if version != 4 or not 0 < length < 0x80 or end + 9 > len(data):
            return None
        (timestamp_ms,) = _TIMESTAMP.unpack_from(data, end)
        tags = data[end + 8 :]
        topic_id = NO_TOPIC_ID
        if tags != NO_TAGS:
            if len(tags) != 19 or tags[:3] != _TOPIC_ID_FIELD:
                return None
            topic_id = tags[3:]
            if topic_id == self._topic_id:
                topic_id = self._topic_id
            else:
                self._topic_id = topic_id
        metadata = ""
        if length > 1:
            try:
                metadata = data[15:end].decode()
            except UnicodeDecodeError:
                return None
        return OffsetCommitValue(offset, leader_epoch, metadata, timestamp_ms, -1, topic_id)
