"""Records that are replayed by topic leave what they leave one by one."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.offsets.replay import replay_offset, replay_runs
from groupd.coordinator.core.offsets.store import ByPartition, OffsetStore
from groupd.coordinator.core.types import AppliedAt
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

NAMES = st.sampled_from(("a", "b"))
VALUES = st.none() | st.builds(OffsetCommitValue, st.integers(0, 9))
RECORDS = st.lists(
    st.builds(Record, st.builds(OffsetCommitKey, NAMES, NAMES, st.integers(0, 3)), VALUES)
)


class Offsets:
    def __init__(self) -> None:
        self.store = OffsetStore()
        self.groups: dict[str, Group] = {}

    def one(self, record: Record, at: AppliedAt) -> None:
        key, value = record.key, record.value
        assert isinstance(key, OffsetCommitKey)
        assert value is None or isinstance(value, OffsetCommitValue)
        replay_offset(self.store, self.groups, ClassicGroup.simple, key, value, at)

    def many(self, group: str, topic: str, offsets: ByPartition) -> None:
        self.groups.setdefault(group, ClassicGroup.simple(group))
        self.store.put_many(group, topic, offsets)

    def all(self) -> object:
        """Everything that it holds, and in which order."""
        groups = list(self.groups)
        return (
            groups,
            self.store.count,
            [
                (group, [(topic, list(found.items())) for topic, found in topics.items()])
                for group in groups
                for topics in [self.store.topics(group)]
            ],
        )


@given(st.lists(RECORDS))
def test_runs_are_what_records_are_one_by_one(writes: list[list[Record]]) -> None:
    by_run, singly = Offsets(), Offsets()
    offset = 0
    for records in writes:
        replay_runs(records, count(offset), by_run.many, by_run.one)
        for at, record in enumerate(records, offset):
            singly.one(record, AppliedAt(at))
        offset += len(records)
        assert by_run.all() == singly.all()
