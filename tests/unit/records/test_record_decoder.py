"""A decoder that remembers what repeats gives what one without a memory gives, for every record
and in any order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records import codec
from groupd.protocol.records.codec import (
    CorruptRecord,
    RecordDecoder,
    decode_record,
    encode_key,
    encode_value,
)
from groupd.protocol.records.schema import (
    AssignedTopic,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
    RecordKey,
    RecordValue,
)
from tests.support.record_strategies import records

T_ID = bytes(range(16))


@given(st.lists(st.tuples(records(), st.booleans()), max_size=20), st.sampled_from([1, 3, 1000]))
def test_memory_changes_nothing(
    pairs: list[tuple[tuple[RecordKey, RecordValue], bool]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "NAMES_MAX", most)
        patch.setattr(codec, "DESCRIPTIONS_MAX", most)
        decoder = RecordDecoder()
        for (key, value), is_tombstone in pairs * 2:
            record = Record(key, None if is_tombstone else value)
            assert decoder.decode(encode_key(key), encode_value(record)) == record


@pytest.mark.parametrize("partitions", [0, 1, 2, 31, 32, 126, 127, 500])
@pytest.mark.parametrize("topics", [0, 1, 2])
@pytest.mark.parametrize("epochs", [True, False])
@pytest.mark.parametrize("pending", [0, 1])
def test_assignments_of_every_size(
    partitions: int, topics: int, epochs: bool, pending: int
) -> None:
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
        assert decode_record(encode_key(record.key), encode_value(record)) == record


COMMIT = OffsetCommitValue(9, 3, "", 1000, -1, T_ID)


@pytest.mark.parametrize(
    "value", [COMMIT, COMMIT._replace(topic_id=bytes(16)), COMMIT._replace(metadata="m")]
)
@given(at=st.integers(0, 50), byte=st.integers(0, 255), cut=st.integers(0, 50))
def test_damaged_commits(value: OffsetCommitValue, at: int, byte: int, cut: int) -> None:
    """A value is read in one way or refused: writing it again gives the same bytes."""
    data = encode_value(Record(OffsetCommitKey("g", "t", 1), value))
    assert data is not None
    damaged = bytearray(data[: len(data) - cut] if cut < len(data) else data)
    damaged[at % len(damaged)] = byte
    key = encode_key(OffsetCommitKey("g", "t", 1))
    try:
        record = decode_record(key, bytes(damaged))
    except CorruptRecord:
        return
    version = damaged[1]
    if version in (1, 3, 4) and isinstance(record.value, OffsetCommitValue):
        again = encode_value(record, offset_value_version=version)
        assert again is not None
        assert decode_record(key, again) == record


@given(st.sampled_from([5, 7, 8]), st.integers(0, 120), st.binary(max_size=3))
def test_damaged_values_are_refused_or_read_in_one_way(
    number: int, at: int, insertion: bytes
) -> None:
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
            RecordDecoder().decode(raw_key, damaged)
        return
    decoder = RecordDecoder()
    assert [decoder.decode(raw_key, damaged) for _ in range(2)] == [want, want]


def test_what_repeats_stands_in_memory_once() -> None:
    decoder = RecordDecoder()
    described = ConsumerGroupMemberMetadataValue(None, None, "client", "/host", ("t",), "")
    read: list[Any] = []
    for member in ("m1", "m2"):
        key: Any
        for key, value in (
            (ConsumerGroupMemberMetadataKey("g", member), described),
            (ConsumerGroupTargetMemberKey("g", member), ConsumerGroupTargetMemberValue()),
        ):
            read.append(decoder.decode(encode_key(key), encode_value(Record(key, value))))  # type: ignore[arg-type]
    assert read[0].value is read[2].value
    assert read[0].key.member_id is read[1].key.member_id
    assert len({id(record.key.group) for record in read}) == 1


def test_commits_share_names_and_topic_ids() -> None:
    decoder = RecordDecoder()
    read: list[Any] = []
    for topic in ("t1", "t2", "t1"):
        key = OffsetCommitKey("a-group", topic, 1)
        read.append(decoder.decode(encode_key(key), encode_value(Record(key, COMMIT))))
    assert len({id(record.key.group) for record in read}) == 1
    assert read[0].key.topic is read[2].key.topic
    assert len({id(record.value.topic_id) for record in read}) == 1
