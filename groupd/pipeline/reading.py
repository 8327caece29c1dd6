"""The tasks of the data source: plans which range of a partition or which segment file each one
reads, and reads it as Arrow batches.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.logtools.entries import LogToolError
from groupd.coordinator.logtools.logs import ToolLog
from groupd.coordinator.logtools.segments import TruncatedSegment, partition_files, read_segment
from groupd.pipeline.decode import ROWS_A_BATCH
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.logs import OFFSETS, LogRows, SourceLog
from groupd.pipeline.options import SourceOptions
from groupd.pipeline.row_filter import RowFilter
from groupd.pipeline.store import StoreLogs, add_rows
from groupd.protocol.records.batch import CorruptBatch
from groupd.storage.log import LogCorrupt, LogState

# A range counts one row for each offset. Above the clean offset that is right, because nearly every
# offset has a record. Below it the cleaner has left gaps, so the ranges there follow the rows of
# the store, each of which holds many records.

_RECORDS_PER_CLEANED_ROW = 1000


@dataclass
class LogRange(InputPartition):
    """Offsets `from_offset` to `until_offset` - 1 of a log partition. `cleaned` is how far the log
    had been cleaned when the read was planned. If the cleaner has gone further since, records that
    were there may be missing."""

    partition: int
    from_offset: int
    until_offset: int
    cleaned: int


@dataclass
class SegmentFile(InputPartition):
    """One segment file. `last`: no other file of its log partition follows, so a batch that is cut
    short is the end of the log."""

    partition: int
    path: str
    last: bool


def store_ranges(
    logs: StoreLogs, source: SourceLog, wanted: RowFilter, rows: int
) -> list[LogRange]:
    """Ranges over the store's logs as they are now, without parts that cannot hold wanted rows."""
    states = logs.states()
    if not states and source == OFFSETS:
        raise PipelineError("the store has no offsets log: no daemon has been started on it yet")
    found: list[LogRange] = []
    count = logs.log_partitions() if source.by_group else None
    for partition in _partitions(wanted, states, count):
        state = states[partition]
        end = state.next_offset
        start = _first(logs, wanted, partition, state)
        if wanted.until_offset is not None:
            end = min(end, wanted.until_offset)
        if start is not None and start < end:
            found += ranges(logs, partition, state, start, end, state.next_offset, rows)
    return found


def ranges(
    logs: StoreLogs,
    partition: int,
    state: LogState,
    start: int,
    end: int,
    cleaned: int,
    rows: int,
) -> Iterator[LogRange]:
    """Splits [start, end) into ranges of about `rows` records."""
    clean = min(state.clean_offset, end)
    if start < clean:
        ends = logs.row_ends(partition, start, clean)
        step = max(1, rows // _RECORDS_PER_CLEANED_ROW)
        for last in ends[step - 1 :: step]:
            if start <= last:
                yield LogRange(partition, start, last + 1, cleaned)
                start = last + 1
        if start < clean:
            yield LogRange(partition, start, clean, cleaned)
            start = clean
    while start < end:
        yield LogRange(partition, start, min(start + rows, end), cleaned)
        start += rows


def _partitions(wanted: RowFilter, states: dict[int, LogState], count: int | None) -> list[int]:
    """The log partitions that can hold wanted rows: the hash of a group id gives its partition
    among `count`, None if that is not so or not known."""
    found = set(states)
    if wanted.partitions is not None:
        found &= wanted.partitions
    if wanted.groups is not None and count is not None:
        found &= {partition_for(group, count) for group in wanted.groups}
    return sorted(found)


def _first(logs: StoreLogs, wanted: RowFilter, partition: int, state: LogState) -> int | None:
    """The first offset to read, None if the partition has no wanted rows."""
    start = state.start_offset
    if wanted.from_offset is not None:
        start = max(start, wanted.from_offset)
    if wanted.from_us is None:
        return start
    try:
        found = logs.first_offset_at(partition, -(-wanted.from_us // 1000))
    except LogCorrupt:
        return start
    return None if found is None else max(start, found)


def segment_files(directory: str, log: ToolLog, wanted: RowFilter) -> list[SegmentFile]:
    """The segment files of the wanted partitions of a log. Raises PipelineError."""
    try:
        logs = partition_files(Path(directory), log)
    except (LogToolError, OSError) as error:
        raise PipelineError(str(error)) from error
    return [
        SegmentFile(partition, str(path), path == paths[-1])
        for partition, paths in logs.items()
        if wanted.partitions is None or partition in wanted.partitions
        for path in paths
    ]


def read_partition(
    options: SourceOptions, partition: InputPartition, out: LogRows, wanted: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Reads one partition of the plan; runs on executors."""
    if isinstance(partition, SegmentFile):
        yield from _read_segment(partition, out)
    elif isinstance(partition, LogRange):
        limits = wanted.also(from_offset=partition.from_offset, until_offset=partition.until_offset)
        out.want(limits)
        assert options.store is not None
        with StoreLogs(options.store, options.source_log.log) as logs:
            yield from _read_log(logs, partition, out, options.fail_on_data_loss)
    if len(out):
        yield out.take()


def _read_log(
    logs: StoreLogs, part: LogRange, out: LogRows, fail: bool
) -> Iterator[pa.RecordBatch]:
    position, reported = part.from_offset, False
    while position < part.until_offset:
        try:
            page = logs.page(part.partition, position, part.until_offset)
        except LogCorrupt as error:
            out.add_corrupt(part.partition, position, -1, str(error))
            return
        lost = data_loss(part.partition, page.state, position, part.cleaned)
        if lost is not None and not reported:
            reported = report_loss(lost, fail)
        position = max(position, min(page.state.start_offset, part.until_offset))
        end = min(part.until_offset, page.state.next_offset)
        position = add_rows(out, part.partition, page.rows, position, end)
        if len(out) >= ROWS_A_BATCH:
            yield out.take()
        if not page.rows:
            return


def data_loss(partition: int, state: LogState, position: int, cleaned: int) -> str | None:
    """One line that says which records from `position` on are gone from the log; None if none are.
    `cleaned`: how far the log had been cleaned at a time when no unread record was missing."""
    if state.next_offset < position:
        return (
            f"{state.name} ends at offset {state.next_offset}, before {position}: "
            "it is not the log that was read before"
        )
    if state.start_offset > position:
        return f"{state.name}: offsets {position} to {state.start_offset - 1} have been removed"
    if state.clean_offset > max(cleaned, position):
        return (
            f"{state.name}: offsets {position} to {state.clean_offset - 1} have been cleaned "
            "before they were read: only the newest record of each key is left"
        )
    return None


def report_loss(lost: str, fail: bool) -> bool:
    """Raises PipelineError if `fail` is set; otherwise prints a line on stderr and returns True."""
    if fail:
        raise PipelineError(
            f"{lost}; read again from the start, or set the option failOnDataLoss to false"
        )
    print(f"groupd: {lost}", file=sys.stderr)
    return True


def _read_segment(part: SegmentFile, out: LogRows) -> Iterator[pa.RecordBatch]:
    path = Path(part.path)
    offset = int(path.stem) if path.stem.isdigit() else 0
    try:
        for raw in read_segment(path):
            out.add_payload(part.partition, raw.payload, raw.header)
            offset = max(offset, raw.header.next_offset)
            if len(out) >= ROWS_A_BATCH:
                yield out.take()
    except TruncatedSegment as error:
        # A broker that crashed leaves an incomplete batch, and drops it at its next start.
        if not part.last:
            out.add_corrupt(part.partition, offset, -1, str(error))
    except CorruptBatch as error:
        out.add_corrupt(part.partition, offset, -1, f"{error}; the rest of the file is not read")
