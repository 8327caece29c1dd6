"""Offset commits of every kind: what is written is read again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.batch import iter_records
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import decode_key, decode_value, encode_key, encode_value
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

TEXT = st.sampled_from(("", "a", "b", "ä", "a" * 200))
INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
VALUES = st.builds(
    OffsetCommitValue,
    INT64,
    INT32,
    TEXT,
    INT64,
    st.sampled_from((-1, 0, 2**62)),
    st.sampled_from((NO_TOPIC_ID, b"0123456789abcdef")),
)
OFFSETS = st.builds(Record, st.builds(OffsetCommitKey, TEXT, TEXT, INT32), VALUES)


@given(OFFSETS)
def test_what_is_written_is_read_again(record: Record) -> None:
    batch = encode_batch(0, 0, 0, [(encode_key(record.key), encode_value(record))])
    (read,) = iter_records(batch)
    assert read.key is not None
    assert decode_key(read.key) == record.key
    found, wrote = decode_value(record.key, read.value), record.value
    assert isinstance(found, OffsetCommitValue)
    assert isinstance(wrote, OffsetCommitValue)
    assert (found.offset, found.metadata) == (wrote.offset, wrote.metadata)
    if wrote.expire_timestamp_ms < 0:
        assert found == wrote
