"""A commit that is replayed by column leaves what its records leave one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.types import AppliedAt
from groupd.protocol.records.commit_records import CommitRecords, TopicCommits
from tests.unit.offsets.harness import T1_ID, Shard

NAMES = st.sampled_from(("a", "b"))
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(-1, 2), st.sampled_from("  m")),
    min_size=1,
)


@st.composite
def topics(draw: st.DrawFn) -> TopicCommits:
    *columns, texts = zip(*draw(ROWS), strict=True)
    metadata = [text.strip() for text in texts]
    return TopicCommits(draw(NAMES), T1_ID, *columns, metadata if any(metadata) else None)


@st.composite
def commits(draw: st.DrawFn) -> CommitRecords:
    of = draw(st.lists(topics(), min_size=1, max_size=3))
    rows = sum(len(topic.offsets) for topic in of)
    return CommitRecords(draw(NAMES), draw(st.integers(5, 9)), -1, of, rows, bare=False)


def all_of(shard: Shard) -> object:
    """Every offset, and in which order."""
    store = shard.offsets.store
    offsets = [
        (group, [(topic, list(found.items())) for topic, found in store.topics(group).items()])
        for group in shard.state.groups
    ]
    return store.count, offsets


@given(st.lists(commits()))
def test_by_column_is_one_by_one(writes: Iterable[CommitRecords]) -> None:
    by_column, singly = Shard(), Shard()
    offset = 0
    for records in writes:
        by_column.offsets.replay_commits(records, count(offset))
        for at, record in enumerate(records, offset):
            singly.offsets.replay(record, AppliedAt(at))
        offset += len(records)
        assert all_of(by_column) == all_of(singly)
