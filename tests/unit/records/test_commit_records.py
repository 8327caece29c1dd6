"""The records of a commit are the same bytes whether they are packed together or one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records.batch_builder import encode_records
from groupd.protocol.records.codec import encode_pairs
from groupd.protocol.records.commit_records import CommitRecords, TopicCommits
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
ID = b"1" * 16


@st.composite
def topics(draw: st.DrawFn) -> TopicCommits:
    rows = draw(st.lists(st.tuples(INT32, INT64, INT32), max_size=150))
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return TopicCommits(draw(st.text(max_size=40)), ID, *map(tuple, columns))


def commit(*of: TopicCommits, group: str = "g") -> CommitRecords:
    return CommitRecords(group, 1_700_000_000_000, -1, of, sum(len(t.offsets) for t in of), True)


@given(
    st.lists(topics(), max_size=4),
    st.text(max_size=60),
    st.sampled_from((0, 1, 60, 63, 64, 1990, 2047, 2048, 8100, 8191, 8192, 1_048_570)),
)
def test_packed_together_is_one_by_one(
    of: list[TopicCommits], group: str, first_delta: int
) -> None:
    records = commit(*of, group=group)
    packed = records.packed(first_delta)
    assert packed == encode_records(encode_pairs(records), first_delta)
    assert len(packed) <= records.size_bytes()


def test_its_records_are_those_of_the_log() -> None:
    records = commit(TopicCommits("t", ID, (3, 5), (30, 50), (-1, 2), ("", "m")))
    values = (
        OffsetCommitValue(30, -1, "", records.commit_ms, -1, ID),
        OffsetCommitValue(50, 2, "m", records.commit_ms, -1, ID),
    )
    keys = (OffsetCommitKey("g", "t", 3), OffsetCommitKey("g", "t", 5))
    assert list(records) == [Record(*pair) for pair in zip(keys, values, strict=True)]


def test_a_name_that_no_record_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        commit(TopicCommits("t", ID, (0,), (1,), (2,)), group="g" * 32768).size_bytes()
