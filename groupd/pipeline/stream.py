"""The data source `groupd` as a stream: each micro-batch has the records that were committed since
the one before.

An offset of the stream holds, for each log partition, the next offset to read and how far the log
had been cleaned at a time when no unread record was missing:

    {"0": {"offset": 1200, "cleaned": 0}, "1": ...}

Spark stores it in the checkpoint before it reads a micro-batch, and plans the same micro-batch
again after a crash. So every record is in exactly one micro-batch. If the cleaner removes records
before they were read, that is always reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.options import SourceOptions
from groupd.pipeline.reading import data_loss, ranges, read_partition, report_loss
from groupd.pipeline.store import StoreLogs
from groupd.storage.log import LogState

StreamOffsets = dict[str, dict[str, int]]


class GroupdStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planning runs in one process beside the driver, `read` runs in tasks."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        if options.store is None:
            raise PipelineError("segment files do not grow: a stream needs the option store")
        self._options = options
        self._columns = columns
        self._logs: StoreLogs | None = None
        self._target: StreamOffsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_logs": None}

    def _open(self) -> StoreLogs:
        if self._logs is None:
            assert self._options.store is not None
            self._logs = StoreLogs(self._options.store, self._options.source_log.log)
        return self._logs

    def stop(self) -> None:
        if self._logs is not None:
            self._logs.close()
            self._logs = None

    def initialOffset(self) -> StreamOffsets:
        starting, found = self._options.starting, {}
        for partition, state in self._open().states().items():
            at = state.next_offset if starting == "latest" else state.start_offset
            if isinstance(starting, dict):
                at = starting.get(partition, at)
            found[str(partition)] = {"offset": at, "cleaned": state.clean_offset}
        return found

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_rows_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def reportLatestOffset(self) -> StreamOffsets:
        return self._ends()

    def _ends(self) -> StreamOffsets:
        return {
            str(partition): {"offset": state.next_offset, "cleaned": state.clean_offset}
            for partition, state in self._open().states().items()
        }

    def latestOffset(self, start: StreamOffsets, limit: ReadLimit) -> StreamOffsets:
        """Raises PipelineError if unread records have been removed."""
        states = {str(number): state for number, state in self._open().states().items()}
        ends: StreamOffsets = {}
        begins: dict[str, int] = {}
        for name in start:
            if name not in states:
                raise PipelineError(f"log partition {name} is not in the store any more")
        for name, state in states.items():
            new = {"offset": state.start_offset, "cleaned": state.clean_offset}
            known = start.get(name, new)
            begins[name] = known["offset"]
            ends[name] = self._end(name, known, state)
        if isinstance(limit, ReadMaxRows):
            _share(begins, ends, limit.max_rows)
        return ends

    def _end(self, name: str, known: dict[str, int], state: LogState) -> dict[str, int]:
        cleaned = known["cleaned"]
        lost = data_loss(int(name), state, known["offset"], cleaned)
        if lost is not None:
            report_loss(lost, self._options.fail_on_data_loss)
            cleaned = state.clean_offset
        end = state.next_offset
        if self._target is not None:
            end = min(end, self._target.get(name, known)["offset"])
        return {"offset": max(end, known["offset"]), "cleaned": cleaned}

    def partitions(self, start: StreamOffsets, end: StreamOffsets) -> Sequence[InputPartition]:
        logs = self._open()
        states = {str(number): state for number, state in logs.states().items()}
        found: list[InputPartition] = []
        for name, until in end.items():
            state = states.get(name)
            if state is None:
                raise PipelineError(f"log partition {name} is not in the store any more")
            first = start[name]["offset"] if name in start else state.start_offset
            rows = self._options.rows_per_partition
            found += ranges(logs, int(name), state, first, until["offset"], until["cleaned"], rows)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted = self._options.wanted
        rows = self._options.source_log.rows(self._columns, wanted)
        yield from read_partition(self._options, partition, rows, wanted)


def _share(begins: dict[str, int], ends: StreamOffsets, rows: int) -> None:
    """Lowers `ends` until only `rows` offsets are left. Each log partition gets a share in
    proportion to what it has; the largest ones get what rounding leaves, so that the result is
    never empty."""
    waiting = {name: end["offset"] - begins[name] for name, end in ends.items()}
    total = sum(waiting.values())
    if total <= rows:
        return
    shares = {name: rows * count // total for name, count in waiting.items()}
    left = rows - sum(shares.values())
    for name in sorted(waiting, key=lambda name: -waiting[name])[:left]:
        shares[name] += 1
    for name, share in shares.items():
        ends[name]["offset"] = begins[name] + share
