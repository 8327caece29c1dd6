"""The records of a commit that comes again are the bytes that are written the first time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records.batch_records import join_contents
from groupd.protocol.records.codec import encode_contents
from groupd.protocol.records.commit_layout import CommitLayout, TopicLayout
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

NAMES = st.sampled_from(("a", "orders", "ä" * 20, "t" * 200))
IDS = st.sampled_from((b"0123456789abcdef", b"\xff" * 16))
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.lists(st.tuples(INT32, st.sampled_from((-1, -1, 0, 7))), min_size=1, max_size=80)
TOPICS = st.lists(st.tuples(NAMES, IDS, PARTITIONS), min_size=1, max_size=3)


@given(NAMES, TOPICS, INT64, st.sampled_from((0, 1, 60, 63, 64, 2000, 8190, 20_000)), st.data())
def test_the_bytes_of_the_ordinary_way(
    group: str,
    topics: list[tuple[str, bytes, list[tuple[int, int]]]],
    stamp: int,
    first_delta: int,
    data: st.DataObject,
) -> None:
    layout = CommitLayout(
        [
            TopicLayout(group, name, id_, [p for p, _ in entries], [e for _, e in entries])
            for name, id_, entries in topics
        ]
    )
    places = [(name, id_, *entry) for name, id_, entries in topics for entry in entries]
    offsets = [data.draw(INT64) for _ in places]
    records = [
        Record(
            OffsetCommitKey(group, name, partition),
            OffsetCommitValue(offset, leader_epoch, "", stamp, -1, topic_id),
        )
        for (name, topic_id, partition, leader_epoch), offset in zip(places, offsets, strict=True)
    ]
    contents, size_bytes = encode_contents(records)
    assert layout.count == len(records)
    assert layout.size_bytes == size_bytes
    assert layout.encode(offsets, stamp, first_delta) == join_contents(contents, first_delta)
