"""Coordinator records that are written: golden bytes both ways, damage, older versions."""

from __future__ import annotations

import pytest

from groupd.protocol.records.codec import (
    CorruptRecord,
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
)
from groupd.protocol.records.schema import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
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
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
)

TOPIC_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
NOW_MS = 1700000000000
OFFSET_KEY = OffsetCommitKey("g1", "orders", 3)
OFFSET = OffsetCommitValue(42, 5, "m", NOW_MS, -1, TOPIC_ID)
GROUP = "0002 6731"
GROUP_METADATA = GroupMetadataValue(
    "consumer",
    3,
    "range",
    "m-1",
    NOW_MS,
    (GroupMetadataMember("m-1", "i", "c", "/h", 300, 100, b"\x01", b""),),
)

# What is written: record and bytes of key and value.
WRITTEN: list[tuple[str, Record, str, str]] = [
    (
        "LG-01-v4",
        Record(OFFSET_KEY, OFFSET),
        "0001 0002 6731 0006 6f7264657273 00000003",
        (
            "0004 000000000000002a 00000005 026d 0000018bcfe56800"
            "01 00 10 00112233445566778899aabbccddeeff"
        ),
    ),
    (
        "LG-01-v4-defaults",
        Record(OFFSET_KEY, OffsetCommitValue(42, commit_timestamp_ms=NOW_MS)),
        "0001 0002 6731 0006 6f7264657273 00000003",
        "0004 000000000000002a ffffffff 01 0000018bcfe56800 00",
    ),
    (
        "LG-01-v1",
        Record(OFFSET_KEY, OffsetCommitValue(42, -1, "m", NOW_MS, NOW_MS + 60000)),
        "0001 0002 6731 0006 6f7264657273 00000003",
        "0001 000000000000002a 0001 6d 0000018bcfe56800 0000018bcfe65260",
    ),
    (
        "LG-01-type-3",
        Record(ConsumerGroupMetadataKey("g1"), ConsumerGroupMetadataValue(7, 1)),
        f"0003 {GROUP}",
        "0000 00000007 01 00 08 0000000000000001",
    ),
    (
        "type-3-no-hash",
        Record(ConsumerGroupMetadataKey("g1"), ConsumerGroupMetadataValue(7)),
        f"0003 {GROUP}",
        "0000 00000007 00",
    ),
    (
        "type-2-v3",
        Record(GroupMetadataKey("g1"), GROUP_METADATA),
        f"0002 {GROUP}",
        (
            "0003 0008 636f6e73756d6572 00000003 0005 72616e6765 0003 6d2d31 0000018bcfe56800"
            "00000001 0003 6d2d31 0001 69 0001 63 0002 2f68 0000012c 00000064 00000001 01 00000000"
        ),
    ),
    (
        "type-2-empty",
        Record(GroupMetadataKey(""), GroupMetadataValue("", 0, None, None)),
        "0002 0000",
        "0003 0000 00000000 ffff ffff ffffffffffffffff 00000000",
    ),
    (
        "type-4",
        Record(ConsumerGroupPartitionMetadataKey("g1"), ConsumerGroupPartitionMetadataValue(b"\1")),
        f"0004 {GROUP}",
        "0000 01",
    ),
    (
        "type-5",
        Record(
            ConsumerGroupMemberMetadataKey("g1", "m"),
            ConsumerGroupMemberMetadataValue("i", None, "c", "/h", ("a", "b"), None, 100, "range"),
        ),
        f"0005 {GROUP} 0001 6d",
        "0000 0269 00 0263 032f68 03 0261 0262 00 00000064 0672616e6765 00",
    ),
    (
        "type-5-classic",
        Record(
            ConsumerGroupMemberMetadataKey("g1", "m"),
            ConsumerGroupMemberMetadataValue(
                None,
                "r",
                "c",
                "/h",
                (),
                "a.*",
                classic=ClassicMemberMetadata(500, (ClassicProtocol("range", b"\x00\x01"),)),
            ),
        ),
        f"0005 {GROUP} 0001 6d",
        (
            "0000 00 0272 0263 032f68 01 04612e2a ffffffff 00"
            "01 00 11 01 000001f4 02 0672616e6765 03 0001 00 00"
        ),
    ),
    (
        "type-6",
        Record(ConsumerGroupTargetMetadataKey("g1"), ConsumerGroupTargetMetadataValue(9, 2)),
        f"0006 {GROUP}",
        "0000 00000009 01 00 08 0000000000000002",
    ),
    (
        "type-7",
        Record(
            ConsumerGroupTargetMemberKey("g1", "m"),
            ConsumerGroupTargetMemberValue((AssignedTopic(TOPIC_ID, (0, 2)),)),
        ),
        f"0007 {GROUP} 0001 6d",
        f"0000 02 {TOPIC_ID.hex()} 03 00000000 00000002 00 00",
    ),
    (
        "type-8",
        Record(
            ConsumerGroupCurrentMemberKey("g1", "m"),
            ConsumerGroupCurrentMemberValue(
                6, 5, 1, (OwnedTopic(TOPIC_ID, (1,), (4,)),), (OwnedTopic(TOPIC_ID, (2,)),)
            ),
        ),
        f"0008 {GROUP} 0001 6d",
        (
            "0000 00000006 00000005 01"
            f"02 {TOPIC_ID.hex()} 02 00000001 01 00 05 02 00000004"
            f"02 {TOPIC_ID.hex()} 02 00000002 00 00"
        ),
    ),
    (
        "type-16",
        Record(ConsumerGroupRegexKey("g1", "a.*"), ConsumerGroupRegexValue(("a", "ab"), 3, NOW_MS)),
        f"0010 {GROUP} 0003 612e2a",
        "0000 03 0261 036162 0000000000000003 0000018bcfe56800 00",
    ),
]


@pytest.mark.parametrize(
    ("record", "key", "value"), [pytest.param(*row[1:], id=row[0]) for row in WRITTEN]
)
def test_written_bytes(record: Record, key: str, value: str) -> None:
    encoded = encode_value(record)
    assert encode_key(record.key).hex() == key.replace(" ", "")
    assert encoded is not None
    assert encoded.hex() == value.replace(" ", "")
    assert decode_record(encode_key(record.key), encoded) == record
    assert decode_record(encode_key(record.key), None) == Record(record.key)
    assert encode_value(Record(record.key)) is None


_DAMAGED = [
    pytest.param(bytes.fromhex(key), bytes.fromhex(value), id=name)
    for name, _, key, value in WRITTEN
    if name != "type-4"  # its value is not decoded
]


@pytest.mark.parametrize(("key", "value"), _DAMAGED)
def test_cut_and_trailing_bytes_are_corrupt(key: bytes, value: bytes) -> None:
    for size in range(len(value)):
        with pytest.raises(CorruptRecord):
            decode_record(key, value[:size])
    with pytest.raises(CorruptRecord):
        decode_record(key, value + b"\x00")
    for size in range(len(key)):
        with pytest.raises(CorruptRecord):
            decode_key(key[:size])
    with pytest.raises(CorruptRecord):
        decode_key(key + b"\x00")


@pytest.mark.parametrize(
    ("version", "value"),
    [
        (1, "0001 000000000000002a 0001 6d 0000018bcfe56800 ffffffffffffffff"),
        (3, "0003 000000000000002a 00000005 0001 6d 0000018bcfe56800"),
        (4, "0004 000000000000002a 00000005 026d 0000018bcfe56800 01 00 10" + TOPIC_ID.hex()),
    ],
)
def test_offset_versions_for_older_readers(version: int, value: str) -> None:
    encoded = encode_value(Record(OFFSET_KEY, OFFSET), offset_value_version=version)
    assert encoded == bytes.fromhex(value)


@pytest.mark.parametrize("version", [0, 2, 5])
def test_offset_versions_that_are_not_written(version: int) -> None:
    with pytest.raises(ValueError, match=f"not {version}"):
        encode_value(Record(OFFSET_KEY, OFFSET), offset_value_version=version)


def test_strings_beyond_the_format() -> None:
    assert decode_key(encode_key(GroupMetadataKey("g" * 32767))) == GroupMetadataKey("g" * 32767)
    with pytest.raises(ValueError, match="32768"):
        encode_key(GroupMetadataKey("g" * 32768))
    with pytest.raises(ValueError, match="65536"):
        encode_key(GroupMetadataKey("é" * 32768))
    # No request can bring a longer string, and Kafka reads none.
    long = OffsetCommitValue(1, metadata="m" * 32767)
    assert decode_value(OFFSET_KEY, encode_value(Record(OFFSET_KEY, long))) == long
    longer = OffsetCommitValue(1, metadata="m" * 32768)
    with pytest.raises(CorruptRecord, match="32768"):
        decode_value(OFFSET_KEY, encode_value(Record(OFFSET_KEY, longer)))
