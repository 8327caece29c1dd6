"""Many records at once: the same bytes as one by one, whatever stands beside what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.batch import iter_records, seal_batch
from groupd.protocol.records.batch_records import encode_body, join_contents
from groupd.protocol.records.codec import (
    decode_key,
    decode_value,
    encode_contents,
    encode_key,
    encode_value,
)
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
)

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
OFFSETS = st.builds(Record, st.builds(OffsetCommitKey, TEXT, TEXT, INT32), st.none() | VALUES)
OTHERS = st.builds(Record, st.builds(GroupMetadataKey, TEXT), st.none())


@given(st.lists(OFFSETS | OTHERS, max_size=20))
def test_together_as_one_by_one(records: list[Record]) -> None:
    one_by_one = [(encode_key(record.key), encode_value(record)) for record in records]
    contents, size_bytes = encode_contents(records)
    assert join_contents(contents, 126) == encode_body(one_by_one, 126)
    assert size_bytes == sum(len(key) + len(value or b"") for key, value in one_by_one)


@given(OFFSETS.filter(lambda record: record.value is not None))
def test_what_is_written_is_read_again(record: Record) -> None:
    contents, _ = encode_contents([record])
    (read,) = iter_records(seal_batch(0, 0, 0, 1, join_contents(contents)))
    assert read.key is not None
    assert decode_key(read.key) == record.key
    found, wrote = decode_value(record.key, read.value), record.value
    assert isinstance(found, OffsetCommitValue)
    assert isinstance(wrote, OffsetCommitValue)
    assert (found.offset, found.metadata) == (wrote.offset, wrote.metadata)
    if wrote.expire_timestamp_ms < 0:
        assert found == wrote
