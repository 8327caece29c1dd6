"""Plans what one task reads: a range of one log partition, or a segment file.

Offsets are counted as rows. Above the clean offset that is right, since nearly every offset has a
record. Below it the cleaner has left gaps, so the ranges there follow the store's own rows, each of
which holds many records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.segments import offsets_partitions
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.store import StoreLogs
from groupd.pipeline.wanted import RowFilter
from groupd.storage.log import LogCorrupt, LogState

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


def store_ranges(logs: StoreLogs, wanted: RowFilter, rows: int) -> list[LogRange]:
    """Ranges over the store's logs as they are now, without parts that cannot hold wanted rows."""
    states = logs.states()
    if not states:
        raise PipelineError("the store has no offsets log: no daemon has been started on it yet")
    found: list[LogRange] = []
    for partition in _partitions(wanted, states, logs.log_partitions()):
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
    """The log partitions that can hold wanted rows: the hash of a group id gives its partition."""
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


def segment_files(directory: str, wanted: RowFilter) -> list[SegmentFile]:
    """The segment files of the wanted log partitions. Raises PipelineError."""
    try:
        logs = offsets_partitions(Path(directory))
    except (LogToolError, OSError) as error:
        raise PipelineError(str(error)) from error
    return [
        SegmentFile(partition, str(path), path == paths[-1])
        for partition, paths in logs.items()
        if wanted.partitions is None or partition in wanted.partitions
        for path in paths
    ]
