"""Coordinator record keys and values: golden bytes of every version, damage, round trips."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.codec import (
    CorruptRecord,
    UnknownRecordType,
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
)
from protocol.records.schema import (
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
    RecordKey,
    RecordValue,
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


@pytest.mark.parametrize(
    ("key", "value", "record"), [pytest.param(*row[1:], id=row[0]) for row in READ]
)
def test_older_and_newer_bytes_are_read(key: str, value: str, record: Record) -> None:
    assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record


_DAMAGED = [
    pytest.param(bytes.fromhex(key), bytes.fromhex(value), id=name)
    for name, key, value in [(row[0], row[2], row[3]) for row in WRITTEN]
    + [(row[0], row[1], row[2]) for row in READ]
    if not name.startswith("type-4")  # its value is not decoded
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


@pytest.mark.parametrize("record_type", [*range(9, 16), *range(17, 24), 99, -1])
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
    long = OffsetCommitValue(1, metadata="m" * 40000)
    assert decode_value(OFFSET_KEY, encode_value(Record(OFFSET_KEY, long))) == long


_STRING = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_MAYBE = st.none() | _STRING
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_ID = st.binary(min_size=16, max_size=16)
_PARTITIONS = st.lists(_INT32, max_size=4).map(tuple)


def _tuples(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


_OWNED = st.builds(OwnedTopic, _ID, _PARTITIONS) | _PARTITIONS.flatmap(
    lambda partitions: st.builds(
        OwnedTopic, _ID, st.just(partitions), st.just(tuple(-p - 1 for p in partitions))
    )
)
_CLASSIC = st.builds(
    ClassicMemberMetadata, _INT32, _tuples(st.builds(ClassicProtocol, _STRING, st.binary()))
)
_RECORDS: st.SearchStrategy[tuple[RecordKey, RecordValue]] = st.one_of(
    st.tuples(
        st.builds(OffsetCommitKey, _STRING, _STRING, _INT32),
        st.builds(OffsetCommitValue, _INT64, _INT32, _STRING, _INT64, topic_id=_ID)
        | st.builds(
            OffsetCommitValue,
            _INT64,
            metadata=_STRING,
            commit_timestamp_ms=_INT64,
            expire_timestamp_ms=st.integers(0, 2**63 - 1),
        ),
    ),
    st.tuples(
        st.builds(GroupMetadataKey, _STRING),
        st.builds(
            GroupMetadataValue,
            _STRING,
            _INT32,
            _MAYBE,
            _MAYBE,
            _INT64,
            _tuples(
                st.builds(
                    GroupMetadataMember,
                    _STRING,
                    _MAYBE,
                    _STRING,
                    _STRING,
                    _INT32,
                    _INT32,
                    st.binary(),
                    st.binary(),
                )
            ),
        ),
    ),
    st.tuples(
        st.builds(ConsumerGroupMetadataKey, _STRING),
        st.builds(ConsumerGroupMetadataValue, _INT32, _INT64),
    ),
    st.tuples(
        st.builds(ConsumerGroupMemberMetadataKey, _STRING, _STRING),
        st.builds(
            ConsumerGroupMemberMetadataValue,
            _MAYBE,
            _MAYBE,
            _STRING,
            _STRING,
            _tuples(_STRING),
            _MAYBE,
            _INT32,
            _MAYBE,
            st.none() | _CLASSIC,
        ),
    ),
    st.tuples(
        st.builds(ConsumerGroupTargetMetadataKey, _STRING),
        st.builds(ConsumerGroupTargetMetadataValue, _INT32, _INT64),
    ),
    st.tuples(
        st.builds(ConsumerGroupTargetMemberKey, _STRING, _STRING),
        st.builds(
            ConsumerGroupTargetMemberValue, _tuples(st.builds(AssignedTopic, _ID, _PARTITIONS))
        ),
    ),
    st.tuples(
        st.builds(ConsumerGroupCurrentMemberKey, _STRING, _STRING),
        st.builds(
            ConsumerGroupCurrentMemberValue,
            _INT32,
            _INT32,
            st.integers(0, 2),
            _tuples(_OWNED),
            _tuples(_OWNED),
        ),
    ),
    st.tuples(
        st.builds(ConsumerGroupRegexKey, _STRING, _STRING),
        st.builds(ConsumerGroupRegexValue, _tuples(_STRING), _INT64, _INT64),
    ),
)


@given(_RECORDS)
def test_round_trip(pair: tuple[RecordKey, RecordValue]) -> None:
    record = Record(*pair)
    assert decode_record(encode_key(record.key), encode_value(record)) == record


@given(st.sampled_from([0, 1, 2, 3, 5, 6, 7, 8, 16]), st.integers(0, 4), st.binary(max_size=60))
def test_garbage_raises_only_corrupt_record(record_type: int, version: int, data: bytes) -> None:
    key = record_type.to_bytes(2, "big") + bytes.fromhex("0000 0000 00000000")
    if record_type in (2, 3, 6):
        key = key[:4]
    elif record_type > 1:
        key = key[:6]
    with contextlib.suppress(CorruptRecord):
        decode_record(key, version.to_bytes(2, "big") + data)
