"""Encodes and decodes the keys and values of coordinator records in `__consumer_offsets`
(docs/spec/offsets-and-log.md#5.1).

A key is an int16 type and its fields, a value an int16 version and its fields; a null value is a
tombstone. `RECORD_TYPES` says how each type is read and written. Key types 0-8 and 10-16 are known.
Records of streams groups (17, 19-23) raise `UnknownRecordType`: a loader logs a warning and goes
on. `CorruptRecord` ends the load. Bytes after the end of a key or value are corruption; unknown
tagged fields are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from sys import intern
from typing import Any, NamedTuple

from groupd.protocol.reader import READ_ERRORS, BadBytes, what_is_wrong
from groupd.protocol.records import group_records, offset_records, share_group_records
from groupd.protocol.records.batch_builder import KeyValue
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegexKey,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    RecordKey,
    RecordValue,
    ShareGroupCurrentMemberKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionsKey,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMetadataKey,
)
from groupd.protocol.records.versioned import UnknownVersion, VersionedValue
from groupd.protocol.writer import Writer

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1

NAMES_MAX = 50_000
DESCRIPTIONS_MAX = 1000
"""A `RecordDecoder` remembers at most this many values. When it has more, it forgets them all."""

_PARTITION = Struct(">i")


class UnknownRecordType(Exception):
    """The key has a type that this coordinator does not store. Loaders skip such records."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


class CorruptRecord(Exception):
    """The version of a value is unknown, or bytes cannot be decoded."""


class RecordType(NamedTuple):
    """How the records of one type are read and written. `names`: the strings of its key, which are
    fields of the class `key`; in the key of an offset commit, the partition follows them. `decode`
    raises READ_ERRORS. `repeats`: many values of this type in a log are equal, so a `RecordDecoder`
    keeps them."""

    number: int
    key: type[Any]
    names: tuple[str, ...]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], RecordValue]
    repeats: bool = False


def make_record_type(
    number: int,
    key: type[Any],
    names: tuple[str, ...],
    value: VersionedValue,
    *,
    repeats: bool = False,
) -> RecordType:
    return RecordType(number, key, names, value.encode, value.decode, repeats)


_GROUP = ("group",)
_MEMBER = ("group", "member_id")
_TOPIC = ("group", "topic")

RECORD_TYPES = (
    RecordType(
        LEGACY_OFFSET_COMMIT,
        OffsetCommitKey,
        _TOPIC,
        offset_records.encode_value,
        offset_records.decode_legacy_value,
    ),
    RecordType(
        OFFSET_COMMIT,
        OffsetCommitKey,
        _TOPIC,
        offset_records.encode_value,
        offset_records.decode_value,
    ),
    make_record_type(2, GroupMetadataKey, _GROUP, group_records.GROUP_METADATA),
    make_record_type(3, ConsumerGroupMetadataKey, _GROUP, group_records.CONSUMER_GROUP_METADATA),
    make_record_type(
        4, ConsumerGroupPartitionMetadataKey, _GROUP, group_records.PARTITION_METADATA
    ),
    make_record_type(
        5, ConsumerGroupMemberMetadataKey, _MEMBER, group_records.MEMBER_METADATA, repeats=True
    ),
    make_record_type(6, ConsumerGroupTargetMetadataKey, _GROUP, group_records.TARGET_METADATA),
    make_record_type(7, ConsumerGroupTargetMemberKey, _MEMBER, group_records.TARGET_MEMBER),
    make_record_type(8, ConsumerGroupCurrentMemberKey, _MEMBER, group_records.CURRENT_MEMBER),
    make_record_type(
        10,
        ShareGroupMemberMetadataKey,
        _MEMBER,
        share_group_records.MEMBER_METADATA,
        repeats=True,
    ),
    make_record_type(11, ShareGroupMetadataKey, _GROUP, share_group_records.METADATA),
    make_record_type(12, ShareGroupTargetMetadataKey, _GROUP, share_group_records.TARGET_METADATA),
    make_record_type(13, ShareGroupTargetMemberKey, _MEMBER, share_group_records.TARGET_MEMBER),
    make_record_type(14, ShareGroupCurrentMemberKey, _MEMBER, share_group_records.CURRENT_MEMBER),
    make_record_type(
        15, ShareGroupStatePartitionsKey, _GROUP, share_group_records.STATE_PARTITIONS
    ),
    make_record_type(16, ConsumerGroupRegexKey, ("group", "regex"), group_records.REGEX),
)
TYPES_BY_PREFIX = {kind.number.to_bytes(2, "big"): kind for kind in RECORD_TYPES}
TYPES_BY_KEY = {kind.key: kind for kind in RECORD_TYPES}
"""The record types by the first two bytes of a key, and by the class of the key. An OffsetCommitKey
is written as type 1, the newer one."""


def encode_key(key: RecordKey) -> bytes:
    """Encodes a key. Raises ValueError for a string of more than 32767 bytes, the format's
    limit."""
    if type(key) is OffsetCommitKey:
        return offset_records.encode_key(key)
    kind = TYPES_BY_KEY[type(key)]
    writer = Writer(flexible=False)
    writer.int16(kind.number)
    for name in kind.names:
        writer.string(getattr(key, name))
    return bytes(writer.buffer)


def encode_value(record: Record, *, offset_value_version: int | None = None) -> bytes | None:
    """Returns the bytes of the value, None for a tombstone. `offset_value_version` (1, 3 or 4) is
    the version in which offset commits are written for readers older than v4."""
    value = record.value
    if value is None:
        return None
    if type(value) is OffsetCommitValue:
        return offset_records.encode_value(value, offset_value_version)
    return TYPES_BY_KEY[type(record.key)].encode(value)


def encode_pairs(records: Iterable[Record]) -> list[KeyValue]:
    """Returns keys and values as bytes, as `encode_key` and `encode_value` encode them."""
    pairs: list[KeyValue] = []
    key_start, encode_commit, pack = (
        offset_records.key_start,
        offset_records.encode_value,
        _PARTITION.pack,
    )
    for record in records:
        key, value = record
        if type(key) is OffsetCommitKey and type(value) is OffsetCommitValue:
            # The type is not looked up here, to save time: a commit has a record for each
            # partition.
            group, topic, partition = key
            pairs.append((key_start(group, topic) + pack(partition), encode_commit(value)))
        else:
            pairs.append((encode_key(key), encode_value(record)))
    return pairs


def record_type(key: bytes) -> int:
    """Returns the type number of an encoded key. Raises CorruptRecord."""
    if len(key) < 2:
        raise CorruptRecord(f"a record key of {len(key)} bytes")
    return int.from_bytes(key[:2], "big", signed=True)


def decode_key(data: bytes) -> RecordKey:
    """Decodes a key. A key of type 0 also becomes an OffsetCommitKey. Raises UnknownRecordType,
    CorruptRecord."""
    return decode_record(data, None).key


def decode_value(key: RecordKey, data: bytes | None) -> RecordValue | None:
    """Decodes the value of `key`; None (a tombstone) stays None. Raises CorruptRecord."""
    return None if data is None else _decode_value(TYPES_BY_KEY[type(key)], key, data)


def decode_record(key: bytes, value: bytes | None) -> Record:
    """Decodes a key and its value. Raises UnknownRecordType, CorruptRecord."""
    return RecordDecoder().decode(key, value)


class RecordDecoder:
    """Decodes the records of one log. Parts that repeat are decoded once and kept in memory once:
    each member has three records with its name, neighbouring commits mostly have the same group and
    topic, and the members of a group mostly have equal descriptions."""

    __slots__ = ("_commit_start", "_descriptions", "_group", "_names", "_topic")

    def __init__(self) -> None:
        self._commit_start: bytes | None = None
        self._group = self._topic = ""
        self._names: dict[bytes, tuple[str, ...]] = {}
        self._descriptions: dict[bytes, RecordValue] = {}

    def decode(self, key: bytes, value: bytes | None) -> Record:
        """Raises UnknownRecordType, CorruptRecord."""
        kind = TYPES_BY_PREFIX.get(key[:2])
        if kind is None:
            raise UnknownRecordType(record_type(key))
        # `tuple.__new__` makes keys and records without a Python call.
        if kind.key is OffsetCommitKey:
            start = key[:-4]
            if start != self._commit_start:
                self._group, self._topic = _read_names(kind, key[2:-4])
                self._commit_start = start
            place = (self._group, self._topic, *_PARTITION.unpack_from(key, len(key) - 4))
            decoded_key: RecordKey = tuple.__new__(OffsetCommitKey, place)
        else:
            names = self._names.get(key[2:])
            # A damaged key may have the bytes of a key of another type, with more or fewer names.
            if names is None or len(names) != len(kind.names):
                if len(self._names) >= NAMES_MAX:
                    self._names.clear()
                names = self._names[key[2:]] = _read_names(kind, key[2:])
            decoded_key = kind.key(*names)
        if value is None:
            return Record(decoded_key)
        if kind.repeats:
            return Record(decoded_key, self._description(kind, decoded_key, value))
        try:
            return tuple.__new__(Record, (decoded_key, kind.decode(value)))
        except READ_ERRORS as error:
            raise _corrupt_value(decoded_key, error) from error

    def _description(self, kind: RecordType, key: RecordKey, data: bytes) -> RecordValue:
        found = self._descriptions.get(data)
        if found is None:
            if len(self._descriptions) >= DESCRIPTIONS_MAX:
                self._descriptions.clear()
            found = self._descriptions[data] = _decode_value(kind, key, data)
        return found


def _read_names(kind: RecordType, data: bytes) -> tuple[str, ...]:
    """The strings in `data`: a key without its type and partition. Raises CorruptRecord."""
    names, at = [], 0
    try:
        for _ in kind.names:
            if data[at] > 0x7F:
                raise BadBytes("a string of negative length")
            start = at + 2
            at = start + (data[at] << 8 | data[at + 1])
            names.append(intern(data[start:at].decode()))
        if at != len(data):
            raise BadBytes(f"{len(data)} bytes for strings of {at}")
    except READ_ERRORS as error:
        raise CorruptRecord(f"key of record type {kind.number}: {what_is_wrong(error)}") from error
    return tuple(names)


def _decode_value(kind: RecordType, key: RecordKey, data: bytes) -> RecordValue:
    try:
        return kind.decode(data)
    except READ_ERRORS as error:
        raise _corrupt_value(key, error) from error


def _corrupt_value(key: RecordKey, error: Exception) -> CorruptRecord:
    if isinstance(error, UnknownVersion):
        return CorruptRecord(f"{error} for {key}")
    return CorruptRecord(f"value for {key}: {what_is_wrong(error)}")
