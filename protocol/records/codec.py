"""Coordinator records <-> the keys and values of `__consumer_offsets` (spec: section 5.1).

A key is an int16 type and its fields, a value an int16 version and its fields; a null value is a
tombstone. Key types 0-8 and 16 are known; share and streams records (10-15, 17, 19-23) raise
`UnknownRecordType`, which a loader answers with a warning, while `CorruptRecord` ends a load.
Bytes after the end of a key or value are corruption; unknown tagged fields are not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from groupd.protocol.records import classic_records, consumer_records, offset_records
from groupd.protocol.records.batch_records import encode_content, zigzag
from groupd.protocol.records.offset_records import encode_bare_content
from groupd.protocol.records.primitives import INT16, INT32, Reader, string
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    RecordKey,
    RecordValue,
)

LEGACY_OFFSET_COMMIT = 0
OFFSET_COMMIT = 1

_BAD_BYTES = (struct.error, IndexError, ValueError, OverflowError)
_VERSION_0 = range(1)


class UnknownRecordType(Exception):
    """A key of a type that this coordinator does not hold. Loaders pass over it."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


class CorruptRecord(Exception):
    """A value version that is not known, or bytes that do not decode."""


# Keys of one string (the group) and of two (group and member, or group and regex).
GROUP_KEYS: dict[int, type[Any]] = {
    2: GroupMetadataKey,
    3: ConsumerGroupMetadataKey,
    4: ConsumerGroupPartitionMetadataKey,
    6: ConsumerGroupTargetMetadataKey,
}
PAIR_KEYS: dict[int, type[Any]] = {
    5: ConsumerGroupMemberMetadataKey,
    7: ConsumerGroupTargetMemberKey,
    8: ConsumerGroupCurrentMemberKey,
    16: ConsumerGroupRegexKey,
}


def _group_key_encoder(record_type: int) -> Callable[[Any], bytes]:
    prefix = INT16.pack(record_type)
    return lambda key: prefix + string(key.group)


def _member_key_encoder(record_type: int) -> Callable[[Any], bytes]:
    prefix = INT16.pack(record_type)
    return lambda key: prefix + string(key.group) + string(key.member_id)


def _encode_regex_key(key: ConsumerGroupRegexKey) -> bytes:
    return b"\x00\x10" + string(key.group) + string(key.regex)


_KEY_ENCODERS: dict[type[Any], Callable[[Any], bytes]] = {
    OffsetCommitKey: offset_records.encode_key,
    **{key: _group_key_encoder(number) for number, key in GROUP_KEYS.items()},
    **{key: _member_key_encoder(number) for number, key in PAIR_KEYS.items()},
    ConsumerGroupRegexKey: _encode_regex_key,
}

_VALUE_ENCODERS: dict[type[Any], Callable[[Any], bytes]] = {
    GroupMetadataValue: classic_records.encode_value,
    ConsumerGroupMetadataValue: consumer_records.encode_group_metadata,
    ConsumerGroupPartitionMetadataValue: consumer_records.encode_partition_metadata,
    ConsumerGroupMemberMetadataValue: consumer_records.encode_member_metadata,
    ConsumerGroupTargetMetadataValue: consumer_records.encode_target_metadata,
    ConsumerGroupTargetMemberValue: consumer_records.encode_target_member,
    ConsumerGroupCurrentMemberValue: consumer_records.encode_current_member,
    ConsumerGroupRegexValue: consumer_records.encode_regex,
}


def _flexible(
    decode: Callable[[Reader], RecordValue],
) -> tuple[range, Callable[[Reader, int], RecordValue]]:
    def decode_version_0(reader: Reader, _version: int) -> RecordValue:
        reader.flexible = True
        return decode(reader)

    return _VERSION_0, decode_version_0


_VALUE_DECODERS: dict[type[Any], tuple[range, Callable[[Reader, int], RecordValue]]] = {
    OffsetCommitKey: (offset_records.READ_VERSIONS, offset_records.decode_value),
    GroupMetadataKey: (classic_records.READ_VERSIONS, classic_records.decode_value),
    ConsumerGroupMetadataKey: _flexible(consumer_records.decode_group_metadata),
    ConsumerGroupPartitionMetadataKey: _flexible(consumer_records.decode_partition_metadata),
    ConsumerGroupMemberMetadataKey: _flexible(consumer_records.decode_member_metadata),
    ConsumerGroupTargetMetadataKey: _flexible(consumer_records.decode_target_metadata),
    ConsumerGroupTargetMemberKey: _flexible(consumer_records.decode_target_member),
    ConsumerGroupCurrentMemberKey: _flexible(consumer_records.decode_current_member),
    ConsumerGroupRegexKey: _flexible(consumer_records.decode_regex),
}


def encode_key(key: RecordKey) -> bytes:
    """Raises ValueError when a string is longer than the format holds (32767 bytes)."""
    return _KEY_ENCODERS[type(key)](key)


def encode_value(record: Record, *, offset_value_version: int | None = None) -> bytes | None:
    """The value's bytes; None for a tombstone. `offset_value_version` (1, 3 or 4) overrides the
    version of offset commits, for readers that predate v4."""
    value = record.value
    if value is None:
        return None
    if isinstance(value, OffsetCommitValue):
        if offset_value_version is None:
            offset_value_version = offset_records.written_version(value)
        return offset_records.encode_value(value, offset_value_version)
    return _VALUE_ENCODERS[type(value)](value)


def encode_contents(records: Iterable[Record]) -> tuple[list[bytes], int]:
    """Records from their keys on (`batch_records.encode_content`), and how many bytes their keys
    and values have; offsets of many partitions of a topic, one after the other, cost less."""
    contents: list[bytes] = []
    size_bytes = bare_bytes = 0
    group = topic = None
    opening = b""
    for record in records:
        key, value = record.key, record.value
        if type(key) is OffsetCommitKey and type(value) is OffsetCommitValue:
            if key.topic != topic or key.group != group:
                group, topic = key.group, key.topic
                prefix = offset_records.key_prefix(group, topic)
                key_bytes = len(prefix) + INT32.size
                opening = zigzag(key_bytes) + prefix
                bare_bytes = key_bytes + offset_records.BARE_VALUE_BYTES
            content = encode_bare_content(opening, key.partition, value)
            if content is not None:
                contents.append(content)
                size_bytes += bare_bytes
                continue
        key_data, value_data = encode_key(key), encode_value(record)
        contents.append(encode_content(key_data, value_data))
        size_bytes += len(key_data) + len(value_data or b"")
    return contents, size_bytes


def record_type(key: bytes) -> int:
    """The type number of an encoded key. Raises CorruptRecord."""
    if len(key) < 2:
        raise CorruptRecord(f"a record key of {len(key)} bytes")
    return int.from_bytes(key[:2], "big", signed=True)


def decode_key(data: bytes) -> RecordKey:
    """Raises UnknownRecordType, CorruptRecord. Type 0 becomes an OffsetCommitKey too."""
    number = record_type(data)
    reader = Reader(data, 2)
    key: RecordKey
    try:
        if number in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT):
            key = offset_records.decode_key(reader)
        elif number in GROUP_KEYS:
            key = GROUP_KEYS[number](reader.string())
        elif number in PAIR_KEYS:
            key = PAIR_KEYS[number](reader.string(), reader.string())
        else:
            raise UnknownRecordType(number)
        reader.end()
    except _BAD_BYTES as error:
        raise CorruptRecord(f"key of record type {number}: {error}") from error
    return key


def decode_value(key: RecordKey, data: bytes | None, *, legacy: bool = False) -> RecordValue | None:
    """The value that belongs to `key`; None (a tombstone) stays None. `legacy`: the key was of
    type 0, whose only value version is 0. Raises CorruptRecord."""
    if data is None:
        return None
    versions, decode = _VALUE_DECODERS[type(key)]
    if len(data) < 2:
        raise CorruptRecord(f"a value of {len(data)} bytes for {key}")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version not in (_VERSION_0 if legacy else versions):
        raise CorruptRecord(f"unknown value version {version} for {key}")
    reader = Reader(data, 2)
    try:
        value = decode(reader, version)
        reader.end()
    except _BAD_BYTES as error:
        raise CorruptRecord(f"value version {version} for {key}: {error}") from error
    return value


def decode_record(key: bytes, value: bytes | None) -> Record:
    """Key and value together: what loaders use. Raises UnknownRecordType, CorruptRecord."""
    decoded = decode_key(key)
    legacy = record_type(key) == LEGACY_OFFSET_COMMIT
    return Record(decoded, decode_value(decoded, value, legacy=legacy))
