"""Coordinator records: whatever is written is read back, and garbage is only ever corrupt."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from protocol.records.codec import (
    CorruptRecord,
    decode_record,
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
