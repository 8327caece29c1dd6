"""`groupd log verify`: checks every log of a store, or segment files, starting from their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.logtools.entries import LogEntry, entry_of
from groupd.coordinator.logtools.findings import Counts, Finding, record_problems, whole_batch
from groupd.coordinator.logtools.importing import partitions_of
from groupd.coordinator.logtools.record_types import MARKER
from groupd.coordinator.logtools.replay_checks import ReplayChecks
from groupd.coordinator.logtools.segments import (
    partition_of,
    read_segment,
)
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    CorruptBatch,
    decode_marker,
    iter_batches,
    iter_records,
)
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.storage.log import LogCorrupt, LogState
from groupd.storage.reader import StoredRow, StoreReader

Found = Callable[[Finding], None]


class LogChecks:
    """Takes the batches of one log in order. `replay`: for an offsets log; the records of data logs
    are the clients' own and are not checked."""

    def __init__(self, log: str, counts: Counts, found: Found, replay: ReplayChecks | None) -> None:
        self._log = log
        self._counts = counts
        self._found = found
        self._replay = replay
        self._next_offset: int | None = None
        counts.logs += 1

    def problem(self, offset: int | None, reason: str) -> None:
        self._found(Finding(self._log, offset, reason))

    def batch(self, payload: bytes) -> BatchHeader | None:
        """Check one batch. Returns its header; None when the batch is damaged."""
        self._counts.batches += 1
        header = whole_batch(payload)
        if isinstance(header, str):
            at = int.from_bytes(payload[:8], "big", signed=True) if len(payload) > 8 else None
            self.problem(at, header)
            return None
        if self._next_offset is not None and header.base_offset < self._next_offset:
            self.problem(
                header.base_offset, f"the batch stands behind offset {self._next_offset - 1}"
            )
        self._next_offset = max(self._next_offset or 0, header.next_offset)
        if self._replay is None:
            self._counts.records += header.record_count
            return header
        try:
            records = list(iter_records(Batch(header, payload)))
        except (CorruptBatch, UnsupportedCodec) as error:
            self.problem(header.base_offset, str(error))
            return header
        self._counts.records += len(records)
        for offset, reason in record_problems(header, records):
            self.problem(offset, reason)
        for raw in records:
            if not header.is_control:
                entry = entry_of(header, raw)
            else:
                try:
                    entry = LogEntry(header, raw, MARKER, marker=decode_marker(raw))
                except CorruptBatch:
                    continue  # reported above
            for offset_or_none, reason in self._replay.add(entry):
                self.problem(offset_or_none, reason)
        return header

    def end(self) -> None:
        if self._replay is not None:
            for offset, reason in self._replay.end(self._counts):
                self.problem(offset, reason)


async def verify_store(reader: StoreReader, found: Found) -> Counts:
    """Check a store. Each log is read in a transaction of its own. Raises LogError when the store
    cannot be read at all."""
    counts = Counts()
    for reason in await reader.damage():
        found(Finding("store", None, reason))
    partitions = await _partitions(reader)
    for state in await reader.states():
        named = partition_of(Path(state.name))
        replay = None
        if named is not None and named[0] == OFFSETS_TOPIC:
            replay = ReplayChecks(named[1], partitions)
            if partitions is not None and named[1] >= partitions:
                found(Finding(state.name, None, f"there are only {partitions} partitions"))
        checks = LogChecks(state.name, counts, found, replay)

        def visit(now: LogState, rows: Iterator[StoredRow], checks: LogChecks = checks) -> None:
            _rows(now, rows, checks)

        try:
            await reader.scan(state.name, visit)
        except LogCorrupt as error:
            checks.problem(None, str(error))
        checks.end()
    return counts


async def _partitions(reader: StoreReader) -> int | None:
    try:
        return await partitions_of(reader)
    except LogCorrupt:
        return None  # reported as damage of the store


def _rows(state: LogState, rows: Iterator[StoredRow], checks: LogChecks) -> None:
    """Check that the rows of a log follow each other without gaps. Compaction may leave gaps within
    batches, but not between rows."""
    if not 0 <= state.start_offset <= state.next_offset:
        checks.problem(None, f"starts at {state.start_offset} and ends at {state.next_offset}")
    expected = None
    for row in rows:
        stored = row.batch
        if expected is None and stored.base_offset > state.start_offset:
            checks.problem(state.start_offset, "the batch is missing")
        elif expected is not None and stored.base_offset > expected:
            checks.problem(expected, f"nothing up to {stored.base_offset - 1}: a batch is missing")
        elif expected is not None and stored.base_offset < expected:
            checks.problem(stored.base_offset, f"the row overlaps the one before, up to {expected}")
        expected = stored.last_offset + 1
        if not row.intact:
            checks.problem(stored.base_offset, "the row's checksum is wrong")
        _row(row, checks)
    end = state.start_offset if expected is None else expected
    if end < state.next_offset:
        checks.problem(end, f"nothing up to the log's end at {state.next_offset}")
    elif end > state.next_offset:
        checks.problem(state.next_offset, f"batches up to {end} beyond the log's end")


def _row(row: StoredRow, checks: LogChecks) -> None:
    stored = row.batch
    try:
        batches = list(iter_batches(stored.payload))
    except CorruptBatch as error:
        checks.problem(stored.base_offset, str(error))
        return
    newest_ms = -1
    for batch in batches:
        header = checks.batch(batch.payload)
        if header is None:
            continue
        newest_ms = max(newest_ms, header.max_timestamp_ms)
        if header.base_offset < stored.base_offset or header.last_offset > stored.last_offset:
            checks.problem(
                stored.base_offset,
                f"the batch has offsets {header.base_offset} to {header.last_offset}, its row "
                f"{stored.base_offset} to {stored.last_offset}",
            )
    if batches and row.intact and newest_ms > stored.max_timestamp_ms:
        checks.problem(
            stored.base_offset,
            f"the row's largest timestamp is {stored.max_timestamp_ms}, its batch's {newest_ms}",
        )


def verify_segments(files: dict[int, list[Path]], partitions: int | None, found: Found) -> Counts:
    """Check segment files by partition. Gaps between batches are allowed: brokers compact."""
    counts = Counts()
    for partition, paths in files.items():
        name = OFFSETS_TOPIC if partition < 0 else f"{OFFSETS_TOPIC}-{partition}"
        checks = LogChecks(name, counts, found, ReplayChecks(partition, partitions))
        for path in paths:
            first = int(path.stem)
            try:
                for raw in read_segment(path):
                    if raw.header.base_offset < first:
                        checks.problem(
                            raw.header.base_offset,
                            f"the batch stands in {path.name}, at byte {raw.at}",
                        )
                    checks.batch(raw.payload)
            except CorruptBatch as error:
                checks.problem(None, str(error))
        checks.end()
    return counts
