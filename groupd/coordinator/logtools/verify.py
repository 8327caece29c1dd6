"""`groupd log verify`: checks the bytes of every log of a store, or of segment files. The offsets
log and that of share groups' state are also replayed as a daemon would, which finds contradictions
and records that a daemon could not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group_types import GROUP_TYPES, type_of
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.logtools.entries import MARKER, UNHELD_TYPES, LogEntry, entry_of
from groupd.coordinator.logtools.findings import Counts, Finding, Problem
from groupd.coordinator.logtools.importing import fresh_shard, partitions_of
from groupd.coordinator.logtools.logs import LOGS, OFFSETS_LOG, SHARE_STATE_LOG, ToolLog
from groupd.coordinator.logtools.segments import log_name, partition_files, read_segment
from groupd.coordinator.logtools.share_state import ShareStateChecks
from groupd.protocol.records.batch import (
    DELETE_HORIZON,
    Batch,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    check,
    decode_marker,
    iter_batches,
    iter_records,
)
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.protocol.records.schema import Record
from groupd.storage.log import LogCorrupt, LogState
from groupd.storage.reader import StoredRow, StoreReader


def record_problems(header: BatchHeader, records: list[BatchRecord]) -> Iterator[tuple[int, str]]:
    """(offset, reason) for each contradiction between the records and the header. Gaps between
    offsets are allowed, because compaction leaves them."""
    last = header.base_offset - 1
    for record in records:
        if record.offset <= last:
            yield record.offset, f"the record stands behind offset {last}"
        elif record.offset > header.last_offset:
            yield (
                record.offset,
                f"the record lies beyond its batch, which ends at {header.last_offset}",
            )
        last = max(last, record.offset)
        if record.timestamp_ms > header.max_timestamp_ms:
            yield (
                record.offset,
                f"timestamp {record.timestamp_ms} is above the batch's {header.max_timestamp_ms}",
            )
        elif record.timestamp_ms < -1:
            yield record.offset, f"timestamp {record.timestamp_ms} is no time"
        if header.is_control:
            try:
                decode_marker(record)
            except CorruptBatch as error:
                yield record.offset, str(error)
    compacted = len(records) < header.last_offset_delta + 1
    newest_ms = max((record.timestamp_ms for record in records), default=header.max_timestamp_ms)
    if (
        not compacted
        and not header.attributes & DELETE_HORIZON
        and newest_ms < header.max_timestamp_ms
    ):
        yield (
            header.base_offset,
            f"the batch's largest timestamp is {header.max_timestamp_ms}, its records' {newest_ms}",
        )
    if header.is_control and not header.is_transactional:
        yield header.base_offset, "a control batch outside of a transaction"


# Replay -------------------------------------------------------------------------------------

# A record that cannot be applied affects only its group. The rest of that group's records are
# skipped, because they would fail for the same reason. The records of other groups are still
# checked.

APPLY_ERRORS = (ReplayError, ValueError, TypeError, LookupError, AssertionError)
"""The errors of a replay for records that contradict the state or make no sense."""


class ReplayChecks:
    """Replays the entries of one log, which it takes in order. `partitions`: the partition count of
    the offsets log; None = unknown."""

    def __init__(self, partition: int, partitions: int | None) -> None:
        self._partition = partition
        self._partitions = partitions
        self._shard = fresh_shard()
        self._broken: set[str] = set()
        self._misplaced: set[str] = set()
        self._known_epochs: dict[str, dict[str, int]] = {}
        self._epochs = {key: epoch for one in GROUP_TYPES for key, epoch in one.epochs.items()}
        self._record_problems = {
            key: problems for one in GROUP_TYPES for key, problems in one.record_problems.items()
        }
        self._open: set[int] = set()

    def add(self, entry: LogEntry) -> Iterator[Problem]:
        offset, header = entry.raw.offset, entry.header
        if entry.kind == MARKER:
            self._open.discard(header.producer_id)
            if entry.marker is not None:
                self._shard.replay_marker(header.producer_id, entry.marker.committed)
            return
        if entry.error is not None:
            yield offset, f"{entry.kind} does not decode: {entry.error}"
            return
        if entry.record is None:
            if entry.number not in UNHELD_TYPES:
                yield offset, f"unknown record type {entry.number}"
            return
        group = entry.group or ""
        yield from self._placed(offset, group)
        if group in self._broken:
            return
        yield from self._record(offset, entry.record)
        producer_id = header.producer_id if header.is_transactional else -1
        if producer_id >= 0:
            self._open.add(producer_id)
        try:
            self._apply(entry, entry.record, producer_id)
        except APPLY_ERRORS as error:
            self._broken.add(group)
            yield offset, f"cannot be applied: {error}; the group's later records are not checked"

    def end(self, counts: Counts) -> Iterator[Problem]:
        """Check the final state. Call it after all entries."""
        for group_id, group in sorted(self._shard.state.groups.items()):
            if group_id not in self._broken:
                yield from ((None, reason) for reason in type_of(group).group_problems(group))
        counts.groups += len(self._shard.state.groups)
        counts.offsets += self._shard.offset_count()
        counts.open_transactions += len(self._open)
        self._shard.discard()

    def _placed(self, offset: int, group: str) -> Iterator[Problem]:
        if self._partitions is None or self._partition < 0 or group in self._misplaced:
            return
        right = partition_for(group, self._partitions)
        if right != self._partition:
            self._misplaced.add(group)
            yield offset, f"group {group} belongs to partition {right} of {self._partitions}"

    def _record(self, offset: int, record: Record) -> Iterator[Problem]:
        """Check the record by itself, and against the records before it."""
        kind, value = type(record.key), record.value
        key: Any = record.key
        epoch = self._epochs.get(kind)
        if epoch is not None:
            yield from self._epoch(offset, key.group, *epoch, value)
        problems = self._record_problems.get(kind)
        if problems is not None and value is not None:
            for reason in problems(key, value):
                yield offset, reason

    def _epoch(
        self, offset: int, group: str, name: str, attribute: str, value: Any
    ) -> Iterator[Problem]:
        """Check that an epoch only grows until a tombstone ends the group."""
        known = self._known_epochs.setdefault(group, {})
        if value is None:
            known.pop(name, None)
            return
        epoch: int = getattr(value, attribute)
        before = known.get(name, epoch)
        known[name] = epoch
        if epoch < before:
            yield offset, f"the {name} of group {group} falls from {before} to {epoch}"

    def _apply(self, entry: LogEntry, record: Record, producer_id: int) -> None:
        """Raises one of APPLY_ERRORS. If the group changes its type, its epochs begin anew."""
        groups, group_id = self._shard.state.groups, entry.group or ""
        before = groups.get(group_id)
        at = AppliedAt(entry.raw.offset, producer_id, entry.header.producer_epoch)
        self._shard.replay(record, at)
        after = groups.get(group_id)
        if before is not None and after is not None and before.type_name != after.type_name:
            self._known_epochs.pop(group_id, None)


OnFinding = Callable[[Finding], None]

RecordChecks = ReplayChecks | ShareStateChecks

_CHECKS: Mapping[ToolLog, Callable[[int, int | None], RecordChecks]] = {
    OFFSETS_LOG: ReplayChecks,
    SHARE_STATE_LOG: ShareStateChecks,
}
"""Makes the checks of one partition of a log: (partition, number of partitions or None)."""


class LogChecks:
    """Checks the batches of one log, which it takes in order. `checks`: for a coordinator's log,
    which `kind` is; the records of data logs are the clients' own and are not checked."""

    def __init__(
        self,
        log: str,
        counts: Counts,
        found: OnFinding,
        checks: RecordChecks | None,
        kind: ToolLog = OFFSETS_LOG,
    ) -> None:
        self._log = log
        self._counts = counts
        self._found = found
        self._checks = checks
        self._kind = kind
        self._next_offset: int | None = None
        counts.logs += 1

    def problem(self, offset: int | None, reason: str) -> None:
        self._found(Finding(self._log, offset, reason))

    def batch(self, payload: bytes) -> BatchHeader | None:
        """Check one batch. Returns its header; None if the batch is damaged."""
        self._counts.batches += 1
        try:
            header = check(payload)
        except CorruptBatch as error:
            at = int.from_bytes(payload[:8], "big", signed=True) if len(payload) > 8 else None
            self.problem(at, str(error))
            return None
        if self._next_offset is not None and header.base_offset < self._next_offset:
            self.problem(
                header.base_offset, f"the batch stands behind offset {self._next_offset - 1}"
            )
        self._next_offset = max(self._next_offset or 0, header.next_offset)
        if self._checks is None:
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
                entry = entry_of(header, raw, self._kind)
            else:
                try:
                    entry = LogEntry(header, raw, MARKER, marker=decode_marker(raw))
                except CorruptBatch:
                    continue  # reported above
            for offset_or_none, reason in self._checks.add(entry):
                self.problem(offset_or_none, reason)
        return header

    def end(self) -> None:
        if self._checks is not None:
            for offset, reason in self._checks.end(self._counts):
                self.problem(offset, reason)


async def verify_store(reader: StoreReader, found: OnFinding) -> Counts:
    """Check a store. Each log is read in its own transaction. Raises LogError if the store cannot
    be read at all."""
    counts = Counts()
    for reason in await reader.damage():
        found(Finding("store", None, reason))
    partitions = {log: await _partitions(reader, log) for log in LOGS}
    for state in await reader.states():
        kind, of_log = OFFSETS_LOG, None
        for log, count in partitions.items():
            partition = log.partition_in_store(state.name)
            if partition is not None:
                kind, of_log = log, _CHECKS[log](partition, count)
                if count is not None and partition >= count:
                    found(Finding(state.name, None, f"there are only {count} partitions"))
        checks = LogChecks(state.name, counts, found, of_log, kind)

        def visit(now: LogState, rows: Iterator[StoredRow], checks: LogChecks = checks) -> None:
            _rows(now, rows, checks)

        try:
            await reader.scan(state.name, visit)
        except LogCorrupt as error:
            checks.problem(None, str(error))
        checks.end()
    return counts


async def _partitions(reader: StoreReader, log: ToolLog) -> int | None:
    try:
        return await partitions_of(reader, log)
    except LogCorrupt:
        return None  # `StoreReader.damage` reports it.


def _rows(state: LogState, rows: Iterator[StoredRow], checks: LogChecks) -> None:
    """Check that the rows of a log follow each other without gaps. Compaction may leave gaps within
    rows, but not between them."""
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


def verify_segments(path: Path, partitions: int | None, found: OnFinding) -> Counts:
    """Check the segment files at `path`. `partitions`: of the offsets log. Gaps between batches are
    allowed, because brokers compact. Raises LogToolError if no log is there."""
    counts = Counts()
    for log in LOGS:
        count = partitions if log == OFFSETS_LOG else None
        for partition, paths in partition_files(path, log).items():
            of_log = _CHECKS[log](partition, count)
            checks = LogChecks(log_name(partition, log), counts, found, of_log, log)
            _segments(paths, checks)
            checks.end()
    return counts


def _segments(paths: Iterable[Path], checks: LogChecks) -> None:
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
