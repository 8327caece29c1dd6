"""A naive model of one share-partition: one entry for each offset, and no batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from groupd.coordinator.share_partitions.acquisition import LogBatch
from groupd.coordinator.share_partitions.runs import ACQUIRED
from groupd.protocol.messages.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    ShareStateBatch,
)

OVER = (ACKNOWLEDGED, ARCHIVED)


class NaiveRecord(Struct):
    """`written`: a number of the write that the state waits for."""

    state: int
    count: int
    member: str | None = None
    until_ms: int = 0
    written: int | None = None

    @property
    def available(self) -> bool:
        return self.state == AVAILABLE and self.written is None

    @property
    def over(self) -> bool:
        return self.state in OVER and self.written is None

    @property
    def may_be_archived(self) -> bool:
        return self.state in (AVAILABLE, ACQUIRED) and self.written is None


class NaiveRecords:
    """`records`: by offset. `unseen`: offsets of the gap window. `end`: the last offset in
    flight."""

    def __init__(self, start: int, stored: Iterable[ShareStateBatch], dead_letters: bool) -> None:
        self.start = start
        self.records: dict[int, NaiveRecord] = {}
        self.writes = 0
        for batch in stored:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                state = batch.delivery_state
                if state == ARCHIVING and not dead_letters:
                    state = ARCHIVED
                self.records[offset] = NaiveRecord(state, batch.delivery_count)
        last = max(self.records, default=start - 1)
        self.unseen = set(range(start, last + 1)).difference(self.records)
        self.settle()

    def settle(self) -> None:
        """Forget what is over before the first that is not."""
        assert max(self.unseen, default=-1) <= max(self.records, default=-1)
        open_offsets = [offset for offset, one in self.records.items() if not one.over]
        first = min((*open_offsets, *self.unseen), default=None)
        if first is None:
            self.start = max(self.records, default=self.start - 1) + 1
        else:
            # Holes without records at the start are skipped: it is a record, or unseen.
            self.start = max(self.start, first)
        for offset in [offset for offset in self.records if offset < self.start]:
            del self.records[offset]

    def forget_before(self, offset: int) -> set[int]:
        """The log starts at `offset`. Returns what was not over yet."""
        gone = {one for one in self.records if one < offset}
        ended = {one for one in gone if not self.records[one].over}
        for one in gone:
            del self.records[one]
        self.unseen = {one for one in self.unseen if one >= offset}
        self.start = max(self.start, offset)
        self.settle()
        return ended

    @property
    def end(self) -> int:
        return max(self.records, default=self.start)

    @property
    def complete(self) -> int:
        return sum(one.state in OVER for one in self.records.values())

    @property
    def next_offset(self) -> int:
        available = [offset for offset, one in self.records.items() if one.available]
        behind = max(self.records) + 1 if self.records else self.start
        return min((*available, *self.unseen), default=behind)

    def held(self, member: str) -> list[int]:
        return [
            offset
            for offset, one in sorted(self.records.items())
            if one.state == ACQUIRED and one.member == member
        ]

    def let_go(self, offset: int, limit: int, dead_letters: bool) -> None:
        one = self.records[offset]
        if one.count < limit:
            one.state = AVAILABLE
        else:
            one.state = ARCHIVING if dead_letters else ARCHIVED


class NaivePersister:
    """What is durable: of each offset the entry with the higher count, or the higher state
    (docs/spec/share-group.md#3)."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.entries: dict[int, tuple[int, int]] = {}

    def write(self, start: int, batches: Sequence[ShareStateBatch]) -> None:
        for batch in batches:
            entry = batch.delivery_count, batch.delivery_state
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.entries[offset] = max(entry, self.entries.get(offset, entry))
        self.start = max(self.start, start)
        self.entries = {at: one for at, one in self.entries.items() if at >= self.start}

    def read(self) -> list[ShareStateBatch]:
        batches: list[ShareStateBatch] = []
        for offset, (count, state) in sorted(self.entries.items()):
            last = batches[-1] if batches else None
            if (
                last is not None
                and last.last_offset == offset - 1
                and (last.delivery_count, last.delivery_state) == (count, state)
            ):
                batches[-1] = ShareStateBatch(last.first_offset, offset, state, count)
            else:
                batches.append(ShareStateBatch(offset, offset, state, count))
        return batches


def read_log(log: Sequence[LogBatch], offset: int, batches: int) -> list[LogBatch]:
    """The first of these batches that end at or after `offset`."""
    return [batch for batch in log if batch[1] >= offset][:batches]
