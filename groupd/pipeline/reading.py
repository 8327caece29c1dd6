"""The work of a task of the data source: reads a part of the log and gives Arrow batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from groupd.coordinator.logtools.segments import TruncatedSegment, read_segment
from groupd.pipeline.decode import ROWS_A_BATCH, EntryRows
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.options import SourceOptions
from groupd.pipeline.plan import LogRange, SegmentFile
from groupd.pipeline.store import StoreLogs, add_rows
from groupd.pipeline.wanted import RowFilter
from groupd.protocol.records.batch import CorruptBatch
from groupd.storage.log import LogCorrupt, LogState


def read_partition(
    options: SourceOptions, partition: InputPartition, out: EntryRows, wanted: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Reads one partition of the plan; runs on executors."""
    if isinstance(partition, SegmentFile):
        yield from _read_segment(partition, out)
    elif isinstance(partition, LogRange):
        limits = wanted.also(from_offset=partition.from_offset, until_offset=partition.until_offset)
        out.want(limits)
        assert options.store is not None
        with StoreLogs(options.store) as logs:
            yield from _read_log(logs, partition, out, options.fail_on_data_loss)
    if len(out):
        yield out.take()


def _read_log(
    logs: StoreLogs, part: LogRange, out: EntryRows, fail: bool
) -> Iterator[pa.RecordBatch]:
    position, told = part.from_offset, False
    while position < part.until_offset:
        try:
            page = logs.page(part.partition, position, part.until_offset)
        except LogCorrupt as error:
            out.add_corrupt(part.partition, position, -1, str(error))
            return
        lost = data_loss(part.partition, page.state, position, part.cleaned)
        if lost is not None and not told:
            told = tell_loss(lost, fail)
        position = max(position, min(page.state.start_offset, part.until_offset))
        end = min(part.until_offset, page.state.next_offset)
        position = add_rows(out, part.partition, page.rows, position, end)
        if len(out) >= ROWS_A_BATCH:
            yield out.take()
        if not page.rows:
            return


def data_loss(partition: int, state: LogState, position: int, cleaned: int) -> str | None:
    """One line that says which records from `position` on are gone from the log; None if none are.
    `cleaned`: how far cleaning is known to have done no harm."""
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


def tell_loss(lost: str, fail: bool) -> bool:
    """Raises PipelineError if `fail` is set; otherwise prints a line on stderr and returns True."""
    if fail:
        raise PipelineError(
            f"{lost}; read again from the start, or set the option failOnDataLoss to false"
        )
    print(f"groupd: {lost}", file=sys.stderr)
    return True


def _read_segment(part: SegmentFile, out: EntryRows) -> Iterator[pa.RecordBatch]:
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
