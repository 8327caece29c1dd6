"""Answers questions from a log: how far back it can answer for a group, the state at a point, and
the changes between two points.

Compaction removes a record when a later one has the same key, and leaves gaps between the offsets.
A state is certain from the first point after which no record can be missing: after the last gap,
and after the first record of every key of the group that may have had an older record in a gap. The
compacted part has only the newest record of each key. So the first key that comes a second time
shows that the compacted part has ended, and a key that first comes after that is really new.

A time means the part of the log up to the last record that was written at or before it. So no
records are hidden if the clock was once too far ahead.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Protocol

from msgspec import Struct

from groupd.coordinator.history.changes import Change, CommittedOffset
from groupd.coordinator.history.ledger import DEFAULT_RETENTION_MS, GroupLedger
from groupd.coordinator.history.stream import GroupStream, UnreadableLog, header_of
from groupd.protocol.records.batch import DELETE_HORIZON, BatchHeader, CorruptBatch, iter_records
from groupd.protocol.records.schema import OffsetCommitKey, RecordKey

LogBatches = AsyncIterable[bytes]
"""The batches of one log, in order, each as its bytes."""


class Extent(Struct, frozen=True):
    """Offsets and times of a log. A state can be told for any part of the log from its start to an
    end between `complete_from` and `end_offset` (exclusive), and certainly for `earliest_ms`.

    `earliest_ms` None = from the very beginning of the log. `cut_offset`: the end of the part that
    belongs to the time that was asked for.
    """

    complete_from: int
    earliest_ms: int | None
    end_offset: int
    cut_offset: int


class ExtentSurvey:
    """Takes every batch of a log in order, and looks for gaps and for the time `at_ms` (None = the
    end of the log). Only headers are read, unless the time lies within a batch."""

    def __init__(self, start_offset: int, at_ms: int | None = None) -> None:
        self._at_ms = at_ms
        self.end_offset = start_offset
        self.gap_end = start_offset
        self._cut = start_offset

    @property
    def cut_offset(self) -> int:
        return self.end_offset if self._at_ms is None else self._cut

    def add(self, payload: bytes) -> None:
        """Take one batch. Raises UnreadableLog."""
        header = header_of(payload)
        if header.base_offset > self.end_offset:
            self.gap_end = header.base_offset
        if header.record_count <= header.last_offset_delta:
            self.gap_end = header.next_offset
        self.end_offset = header.next_offset
        if self._at_ms is not None:
            self._move_cut(header, payload, self._at_ms)

    def _move_cut(self, header: BatchHeader, payload: bytes, at_ms: int) -> None:
        if header.max_timestamp_ms <= at_ms:
            self._cut = header.next_offset
        elif _may_begin_before(header, at_ms):
            try:
                for record in iter_records(payload):
                    if record.timestamp_ms <= at_ms:
                        self._cut = record.offset + 1
            except CorruptBatch as error:
                raise UnreadableLog(f"the log is damaged: {error}") from error


def _may_begin_before(header: BatchHeader, at_ms: int) -> bool:
    if header.is_log_append_time:
        return False
    # In a cleaned batch the base timestamp is the time when its tombstones may be removed.
    return bool(header.attributes & DELETE_HORIZON) or header.base_timestamp_ms <= at_ms


class Certainty:
    """Takes every batch of a log with gaps, the last of which ends at `gap_end`. Finds the offset
    from which states of the group are certain, and the time at that offset."""

    def __init__(self, group_id: str, gap_end: int) -> None:
        self.complete_from = gap_end
        self.earliest_ms: int | None = None
        self._stream = GroupStream(group_id)
        self._keys: set[RecordKey] = set()
        self._compaction_is_over = False
        # Producers with a record of the group in an open transaction. The record takes effect at
        # the marker.
        self._open: set[int] = set()

    def add(self, payload: bytes) -> None:
        """Take one batch. Raises UnreadableLog."""
        if not self._compaction_is_over:
            self._look(payload)
        header = header_of(payload)
        if self.earliest_ms is None and header.next_offset >= self.complete_from:
            self.earliest_ms = header.max_timestamp_ms

    def _look(self, payload: bytes) -> None:
        for entry in self._stream.entries(payload):
            if entry.record is None:
                if entry.producer_id in self._open:
                    self._open.discard(entry.producer_id)
                    self._uncertain_up_to(entry.offset)
                continue
            key = entry.record.key
            if key in self._keys:
                self._compaction_is_over = True
                return
            self._keys.add(key)
            if isinstance(key, OffsetCommitKey):
                self._uncertain_up_to(entry.offset)
                if entry.producer_id >= 0:
                    self._open.add(entry.producer_id)

    def _uncertain_up_to(self, offset: int) -> None:
        if offset >= self.complete_from:
            self.complete_from = offset + 1
            self.earliest_ms = None


class GroupLog(Protocol):
    """The log of the partition that a group belongs to."""

    @property
    def name(self) -> str: ...

    @property
    def start_offset(self) -> int: ...

    def batches(self) -> LogBatches:
        """The batches from the start of the log. May be called again."""
        ...


class BeforeHistory(Exception):
    """The log does not reach back to the time that was asked for. `earliest_ms`: the earliest time
    for which it can answer."""

    def __init__(self, earliest_ms: int) -> None:
        super().__init__(earliest_ms)
        self.earliest_ms = earliest_ms


class GroupState(Struct, frozen=True):
    """A group at a point of the log. `as_of_offset`: the first offset that is not included.
    `group_type` is "" if the log had no such group."""

    as_of_offset: int
    group_type: str
    offsets: list[CommittedOffset]


async def survey(
    batches: Callable[[], LogBatches], start_offset: int, group_id: str, at_ms: int | None = None
) -> Extent:
    """Returns how far back the log can answer for a group, and where `at_ms` lies in it. Reads the
    log once, and a second time if it was compacted. Raises UnreadableLog."""
    surveyor = ExtentSurvey(start_offset, at_ms)
    async for payload in batches():
        surveyor.add(payload)
    gap_end, end_offset = surveyor.gap_end, surveyor.end_offset
    if not gap_end:
        return Extent(0, None, end_offset, surveyor.cut_offset)
    certainty = Certainty(group_id, gap_end)
    async for payload in batches():
        certainty.add(payload)
    complete_from, earliest_ms = certainty.complete_from, certainty.earliest_ms
    return Extent(complete_from, earliest_ms or 0, end_offset, surveyor.cut_offset)


async def extent_of(log: GroupLog, group_id: str, at_ms: int | None = None) -> Extent:
    """Returns what `survey` returns. Raises BeforeHistory if the log cannot tell the state at
    `at_ms`; UnreadableLog."""
    extent = await survey(log.batches, log.start_offset, group_id, at_ms)
    earliest_ms = extent.earliest_ms
    if at_ms is not None and earliest_ms is not None and extent.cut_offset < extent.complete_from:
        raise BeforeHistory(earliest_ms)
    return extent


async def state_at(batches: LogBatches, group_id: str, cut_offset: int) -> GroupState:
    """Returns the group's state at `cut_offset`, the first offset that is not included. Raises
    UnreadableLog."""
    ledger = GroupLedger(group_id)
    stream = GroupStream(group_id)
    async for payload in batches:
        if header_of(payload).base_offset >= cut_offset:
            break
        ledger.apply([e for e in stream.entries(payload) if e.offset < cut_offset])
    group = ledger.group
    return GroupState(
        cut_offset,
        "" if group is None else group.type_name,
        ledger.committed(),
    )


async def changes(
    batches: LogBatches,
    group_id: str,
    extent: Extent,
    *,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> AsyncIterator[Change]:
    """Yields every change that the log can still tell, up to `extent.cut_offset`, in log order. The
    compacted part is replayed, but yields no changes, because the steps in between are missing
    there. Raises UnreadableLog."""
    ledger = GroupLedger(group_id, retention_ms)
    stream = GroupStream(group_id)
    async for payload in batches:
        if header_of(payload).base_offset >= extent.cut_offset:
            break
        batch = [e for e in stream.entries(payload) if e.offset < extent.cut_offset]
        for change in ledger.apply(batch):
            if change.log_offset >= extent.complete_from:
                yield change
