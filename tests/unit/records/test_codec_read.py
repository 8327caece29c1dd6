"""Coordinator records that are only read: older and newer versions, unknown and bad bytes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from groupd.protocol.records.codec import (
    CorruptRecord,
    RecordDecoder,
    UnknownRecordType,
    decode_key,
    decode_record,
)
from groupd.protocol.records.schema import (
    AssignedTopic,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
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

# What is only read: key, value bytes and the record.
_PLAIN_MEMBER = GroupMetadataMember("m", None, "c", "/h", -1, 100, b"\x01", b"\x02")
READ: list[tuple[str, str, str, Record]] = [
    (
        "LG-17-type-0",
        "0000 0002 6731 0001 74 00000003",
        "0000 000000000000002a 0001 6d 0000018bcfe56800",
        Record(OffsetCommitKey("g1", "t", 3), OffsetCommitValue(42, -1, "m", NOW_MS)),
    ),
    (
        "type-1-v0",
        "0001 0002 6731 0001 74 00000003",
        "0000 000000000000002a 0000 0000018bcfe56800",
        Record(OffsetCommitKey("g1", "t", 3), OffsetCommitValue(42, -1, "", NOW_MS)),
    ),
    (
        "LG-18-type-1-v1",
        "0001 0002 6731 0001 74 00000003",
        "0001 000000000000002a 0001 6d 0000018bcfe56800 0000018bcfe65260",
        Record(
            OffsetCommitKey("g1", "t", 3), OffsetCommitValue(42, -1, "m", NOW_MS, NOW_MS + 60000)
        ),
    ),
    (
        "type-1-v2",
        "0001 0002 6731 0001 74 00000003",
        "0002 000000000000002a 0001 6d 0000018bcfe56800",
        Record(OffsetCommitKey("g1", "t", 3), OffsetCommitValue(42, -1, "m", NOW_MS)),
    ),
    (
        "LG-18-type-1-v3",
        "0001 0002 6731 0001 74 00000003",
        "0003 000000000000002a 00000005 0001 6d 0000018bcfe56800",
        Record(OffsetCommitKey("g1", "t", 3), OffsetCommitValue(42, 5, "m", NOW_MS)),
    ),
    (
        "type-1-v4-unknown-tags",
        "0001 0002 6731 0001 74 00000003",
        (
            "0004 000000000000002a 00000005 026d 0000018bcfe56800"
            "03 00 10 00112233445566778899aabbccddeeff 01 00 63 03 616263"
        ),
        Record(OffsetCommitKey("g1", "t", 3), OFFSET),
    ),
    (
        "type-2-v0",
        f"0002 {GROUP}",
        (
            "0000 0008 636f6e73756d6572 00000001 ffff ffff 00000001"
            "0001 6d 0001 63 0002 2f68 00000064 00000001 01 00000001 02"
        ),
        Record(
            GroupMetadataKey("g1"),
            GroupMetadataValue("consumer", 1, None, None, -1, (_PLAIN_MEMBER,)),
        ),
    ),
    (
        "type-2-v1",
        f"0002 {GROUP}",
        (
            "0001 0008 636f6e73756d6572 00000001 ffff 0001 6d 00000001"
            "0001 6d 0001 63 0002 2f68 0000012c 00000064 00000001 01 00000001 02"
        ),
        Record(
            GroupMetadataKey("g1"),
            GroupMetadataValue(
                "consumer", 1, None, "m", -1, (replace(_PLAIN_MEMBER, rebalance_timeout_ms=300),)
            ),
        ),
    ),
    (
        "type-2-v2",
        f"0002 {GROUP}",
        (
            "0002 0008 636f6e73756d6572 00000001 0001 72 ffff 0000018bcfe56800 00000001"
            "0001 6d 0001 63 0002 2f68 0000012c 00000064 00000001 01 00000001 02"
        ),
        Record(
            GroupMetadataKey("g1"),
            GroupMetadataValue(
                "consumer",
                1,
                "r",
                None,
                NOW_MS,
                (replace(_PLAIN_MEMBER, rebalance_timeout_ms=300),),
            ),
        ),
    ),
    (
        "type-2-v4",
        f"0002 {GROUP}",
        (
            "0004 09 636f6e73756d6572 00000003 06 72616e6765 04 6d2d31 0000018bcfe56800 02"
            "04 6d2d31 02 69 02 63 03 2f68 0000012c 00000064 02 01 01 00  01 05 02 ffff"
        ),
        Record(GroupMetadataKey("g1"), GROUP_METADATA),
    ),
    (
        "type-5-null-classic",
        f"0005 {GROUP} 0001 6d",
        "0000 00 00 0263 032f68 01 00 ffffffff 00  01 00 01 00",
        Record(
            ConsumerGroupMemberMetadataKey("g1", "m"),
            ConsumerGroupMemberMetadataValue(None, None, "c", "/h", (), None),
        ),
    ),
    (
        "type-8-epochs-of-wrong-length",
        f"0008 {GROUP} 0001 6d",
        f"0000 00000006 00000005 00 02 {TOPIC_ID.hex()} 02 00000001 01 00 01 01 01 00",
        Record(
            ConsumerGroupCurrentMemberKey("g1", "m"),
            ConsumerGroupCurrentMemberValue(6, 5, 0, (OwnedTopic(TOPIC_ID, (1,)),)),
        ),
    ),
    (
        "type-8-null-epochs",
        f"0008 {GROUP} 0001 6d",
        f"0000 00000006 00000005 00 02 {TOPIC_ID.hex()} 02 00000001 01 00 01 00 01 00",
        Record(
            ConsumerGroupCurrentMemberKey("g1", "m"),
            ConsumerGroupCurrentMemberValue(6, 5, 0, (OwnedTopic(TOPIC_ID, (1,)),)),
        ),
    ),
    (
        "type-7-unknown-tags",
        f"0007 {GROUP} 0001 6d",
        f"0000 02 {TOPIC_ID.hex()} 02 00000000 01 07 01 ff 01 09 00",
        Record(
            ConsumerGroupTargetMemberKey("g1", "m"),
            ConsumerGroupTargetMemberValue((AssignedTopic(TOPIC_ID, (0,)),)),
        ),
    ),
]


@pytest.mark.parametrize(
    ("key", "value", "record"), [pytest.param(*row[1:], id=row[0]) for row in READ]
)
def test_older_and_newer_bytes_are_read(key: str, value: str, record: Record) -> None:
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record


_DAMAGED = [
    pytest.param(bytes.fromhex(key), bytes.fromhex(value), id=name) for name, key, value, _ in READ
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


@pytest.mark.parametrize("record_type", [9, *range(17, 24), 99, -1])
def test_lg_15_unknown_types(record_type: int) -> None:
    key = record_type.to_bytes(2, "big", signed=True) + bytes.fromhex("00026731")
    with pytest.raises(UnknownRecordType) as caught:
        decode_key(key)
    assert caught.value.record_type == record_type
    with pytest.raises(UnknownRecordType):
        decode_record(key, b"\x00\x00")


@pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param("0000 0002 6731 0001 74 00000003", 1, id="LG-17"),
        pytest.param("0001 0002 6731 0001 74 00000003", 5, id="LG-16"),
        pytest.param("0001 0002 6731 0001 74 00000003", -1, id="negative"),
        pytest.param("0002 0002 6731", 5, id="type-2"),
        pytest.param("0003 0002 6731", 1, id="type-3"),
        pytest.param("0008 0002 6731 0001 6d", 1, id="type-8"),
    ],
)
def test_unknown_value_versions(key: str, version: int) -> None:
    value = version.to_bytes(2, "big", signed=True) + bytes(40)
    with pytest.raises(CorruptRecord, match=f"version {version} "):
        decode_record(bytes.fromhex(key), value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("0001 0002 ff31 0001 74 00000003", "", id="utf-8-key"),
        pytest.param("0003 ffff", "", id="null-group"),
        pytest.param("0003 fff0", "", id="negative-length"),
        pytest.param("0003 0002 6731", "0000 00000007 01 00 04 00000001", id="short-tag"),
        pytest.param("0003 0002 6731", "0000 00000007 01 00 09" + "00" * 9, id="long-tag"),
        pytest.param("0001 0000 0000 00000000", "0004" + "00" * 12 + "01" + "00" * 8 + "01000100",
                     id="short-id"),
        pytest.param("0007 0000 0000", "0000 00 00", id="null-array"),
        pytest.param("0007 0000 0000", "0000 ffffffffff0f 00", id="endless-varint"),
        pytest.param("0007 0000 0000", f"0000 02 {'00' * 16} ffffffff0f 00", id="huge-array"),
        pytest.param("0005 0000 0000", "0000 00 00 01 01 01 00 00000000 00 01 00 02 02 00",
                     id="half-null-struct"),
    ],
)  # fmt: skip
def test_undecodable_bytes(key: str, value: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_record(bytes.fromhex(key), bytes.fromhex(value))


def test_a_key_is_read_with_the_names_of_its_own_type() -> None:
    """The decoder remembers names by their bytes, and types have one name or two."""
    decoder = RecordDecoder()
    one, two = bytes.fromhex("0003 0001 67"), bytes.fromhex("0005 0001 67 0001 6d")
    decoder.decode(one, None)
    decoder.decode(two, None)
    for damaged in (b"\x00\x05" + one[2:], b"\x00\x03" + two[2:]):
        with pytest.raises(CorruptRecord):
            decoder.decode(damaged, None)


@pytest.mark.parametrize("key", ["0003 8000", "0001 8000"])
def test_a_string_of_negative_length_is_corrupt(key: str) -> None:
    tail = b"g" * 0x8000 + (b"\x00\x01t\x00\x00\x00\x00" if key.startswith("0001") else b"")
    with pytest.raises(CorruptRecord):
        decode_key(bytes.fromhex(key) + tail)
