"""The reader of loaders gives what `decode_record` gives, for every record and in any order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records import group_reader
from groupd.protocol.records.codec import CorruptRecord, decode_record, encode_key, encode_value
from groupd.protocol.records.group_reader import GroupReader
from groupd.protocol.records.schema import (
    AssignedTopic,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    GroupMetadataKey,
    OffsetCommitKey,
    OwnedTopic,
    Record,
    RecordKey,
    RecordValue,
)
from tests.support.record_strategies import records

T_ID = bytes(range(16))


def expected(record: Record) -> Any:
    key: Any = record.key
    if isinstance(key, OffsetCommitKey | GroupMetadataKey):
        return None
    name = getattr(key, "member_id", getattr(key, "regex", ""))
    return type(key), key.group, name, record.value


@given(st.lists(st.tuples(records(), st.booleans()), max_size=20), st.sampled_from([1, 3, 1000]))
def test_it_reads_what_the_codec_reads(
    pairs: list[tuple[tuple[RecordKey, RecordValue], bool]], most: int
) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(group_reader, "NAMES_MAX", most)
    patch.setattr(group_reader, "DESCRIPTIONS_MAX", most)
    with patch.context():
        reader = GroupReader()
        for (key, value), is_tombstone in pairs * 2:
            record = Record(key, None if is_tombstone else value)
            assert reader.read(encode_key(key), encode_value(record)) == expected(record)
    patch.undo()


@pytest.mark.parametrize("partitions", [1, 2, 31, 32, 126, 127, 500])
@pytest.mark.parametrize("topics", [0, 1, 2])
@pytest.mark.parametrize("epochs", [True, False])
@pytest.mark.parametrize("pending", [0, 1])
def test_assignments_of_every_size(
    partitions: int, topics: int, epochs: bool, pending: int
) -> None:
    reader = GroupReader()
    numbers = tuple(range(partitions))
    owned = tuple(
        OwnedTopic(bytes([n]) * 16, numbers, numbers if epochs else None) for n in range(topics)
    )
    target = tuple(AssignedTopic(topic.topic_id, numbers) for topic in owned)
    for record in (
        Record(
            ConsumerGroupCurrentMemberKey("g", "m"),
            ConsumerGroupCurrentMemberValue(3, 2, 0, owned, owned[:pending]),
        ),
        Record(ConsumerGroupTargetMemberKey("g", "m"), ConsumerGroupTargetMemberValue(target)),
    ):
        assert reader.read(encode_key(record.key), encode_value(record)) == expected(record)


@given(st.sampled_from([5, 7, 8]), st.integers(0, 120), st.binary(max_size=3))
def test_damaged_values_are_corrupt_for_both(number: int, at: int, insertion: bytes) -> None:
    owned = OwnedTopic(T_ID, (1, 2, 3), (4, 5, 6))
    value, key = {
        5: (
            ConsumerGroupMemberMetadataValue(None, None, "c", "/h", ("t",), ""),
            ConsumerGroupMemberMetadataKey("g", "m"),
        ),
        7: (
            ConsumerGroupTargetMemberValue((AssignedTopic(T_ID, (1, 2)),)),
            ConsumerGroupTargetMemberKey("g", "m"),
        ),
        8: (
            ConsumerGroupCurrentMemberValue(3, 2, 0, (owned,)),
            ConsumerGroupCurrentMemberKey("g", "m"),
        ),
    }[number]
    data = encode_value(Record(key, value))  # type: ignore[arg-type]
    assert data is not None
    at %= len(data)
    damaged = data[:at] + insertion + data[at + 1 :]
    raw_key = encode_key(key)
    try:
        want = decode_record(raw_key, damaged)
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            GroupReader().read(raw_key, damaged)
    else:
        assert GroupReader().read(raw_key, damaged) == expected(want)


def test_what_repeats_stands_in_memory_once() -> None:
    reader = GroupReader()
    described = ConsumerGroupMemberMetadataValue(None, None, "client", "/host", ("t",), "")
    read = []
    for member in ("m1", "m2"):
        key: Any
        for key, value in (
            (ConsumerGroupMemberMetadataKey("g", member), described),
            (ConsumerGroupTargetMemberKey("g", member), ConsumerGroupTargetMemberValue()),
        ):
            found = reader.read(encode_key(key), encode_value(Record(key, value)))  # type: ignore[arg-type]
            assert found is not None
            read.append(found)
    assert read[0].value is read[2].value
    assert read[0].name is read[1].name
    assert len({id(record.group) for record in read}) == 1
