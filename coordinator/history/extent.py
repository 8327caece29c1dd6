"""How far back a log can answer, and where in it an instant lies.

Compaction takes superseded records away and leaves gaps between offsets; everything up to the
last gap is known only as it was at the end of that part. An instant is the part of the log up to
the last record written at or before it: a clock that once stood too far ahead then hides nothing.
Only batch headers are read, unless an instant falls into the middle of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.history.stream import UnreadableLog, header_of
from protocol.records.batch import BatchHeader, CorruptBatch, iter_records


@dataclass(frozen=True, slots=True)
class Extent:
    """Offsets and times of a log: states can be told for prefixes that end in
    `complete_from`..`end_offset` (exclusive ends), that is from `earliest_ms` on.

    `earliest_ms` None: from the very beginning. `cut_offset`: where the prefix for the instant
    asked for ends.
    """

    complete_from: int
    earliest_ms: int | None
    end_offset: int
    cut_offset: int


class Survey:
    """Takes every batch of a log in order; `extent()` is the result.

    `at_ms` None: the instant is the end of the log.
    """

    def __init__(self, start_offset: int, at_ms: int | None = None) -> None:
        self._at_ms = at_ms
        self._next = start_offset
        self._seen_ms = -1
        self._complete_from = start_offset
        self._earliest_ms: int | None = None
        self._lost_before_start = start_offset > 0
        self._cut = start_offset

    def add(self, payload: bytes) -> None:
        """One batch. Raises UnreadableLog."""
        header = header_of(payload)
        if self._lost_before_start:
            self._lost_before_start = False
            self._gap(header.base_offset, header.base_timestamp_ms)
        if header.base_offset > self._next:
            self._gap(header.base_offset, max(self._seen_ms, 0))
        if header.record_count <= header.last_offset_delta:
            self._gap(header.next_offset, header.max_timestamp_ms)
        self._seen_ms = max(self._seen_ms, header.max_timestamp_ms)
        self._next = header.next_offset
        if self._at_ms is not None:
            self._move_cut(header, payload, self._at_ms)

    def extent(self) -> Extent:
        cut = self._next if self._at_ms is None else self._cut
        return Extent(self._complete_from, self._earliest_ms, self._next, cut)

    def _gap(self, complete_from: int, earliest_ms: int) -> None:
        self._complete_from = complete_from
        self._earliest_ms = max(self._earliest_ms or 0, earliest_ms)

    def _move_cut(self, header: BatchHeader, payload: bytes, at_ms: int) -> None:
        if header.max_timestamp_ms <= at_ms:
            self._cut = header.next_offset
        elif header.base_timestamp_ms <= at_ms and not header.is_log_append_time:
            try:
                for record in iter_records(payload):
                    if record.timestamp_ms <= at_ms:
                        self._cut = record.offset + 1
            except CorruptBatch as error:
                raise UnreadableLog(f"the log is damaged: {error}") from error
