"""Reads a log of a store in processes without an event loop: Spark's tasks.

It can run while a daemon writes. Nothing is locked, each page is read in its own transaction, and
only committed data is seen. What the store does not give as it was written (a row with a wrong
checksum, missing rows) becomes rows with `error`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from groupd.coordinator.logtools.logs import OFFSETS_LOG, ToolLog
from groupd.coordinator.logtools.segments import partition_of
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.logs import LogRows
from groupd.protocol.records.batch import CorruptBatch, iter_batches
from groupd.storage.log import LogError, LogState, StoredTopic, StoreRefused
from groupd.storage.open import DATABASE_FILE, create_reader
from groupd.storage.reader import LogPage, StoredRow

PAGE_BYTES = 1024 * 1024

T = TypeVar("T")


def store_url(text: str) -> str:
    """The URL of a store. `text`: what the daemon's `--store` takes, or the path of the database
    file or data directory. Relative paths become absolute, because tasks may run in another
    directory."""
    if "://" in text:
        scheme, _, path = text.partition(":///")
        if scheme.startswith("sqlite") and path:
            return f"{scheme}:///{Path(path).absolute()}"
        return text
    path_there = Path(text).absolute()
    if path_there.is_dir():
        path_there /= DATABASE_FILE
    return f"sqlite+aiosqlite:///{path_there}"


class StoreLogs:
    """A store opened for reading; a context manager. `log`: the log that is read. Raises
    PipelineError if the store cannot be opened and LogError if it cannot be read any more."""

    def __init__(self, url: str, log: ToolLog = OFFSETS_LOG) -> None:
        self._log = log
        self._loop = asyncio.new_event_loop()
        # The caller's thread may already have a running loop, as in a notebook.
        self._thread = ThreadPoolExecutor(1, "groupd-store")
        try:
            self._reader = create_reader(store_url(url), ".")
            self._run(self._reader.start())
        except StoreRefused as error:
            self._end()
            raise PipelineError(str(error)) from error

    def __enter__(self) -> StoreLogs:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._loop.is_closed():
            self._run(self._reader.close())
            self._end()

    def _end(self) -> None:
        self._thread.shutdown()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.submit(self._loop.run_until_complete, work).result()

    def states(self) -> dict[int, LogState]:
        """The state of each shard's log, by log partition."""
        found = {}
        for state in self._run(self._reader.states()):
            partition = self._log.partition_in_store(state.name)
            if partition is not None:
                found[partition] = state
        return dict(sorted(found.items()))

    def log_partitions(self) -> int | None:
        """The number of log partitions, None if the store does not say."""
        for resource, name, key, value in self._run(self._reader.configs()):
            if (resource, name, key) == self._log.shards_key:
                return int(value)
        return None

    def topics(self) -> list[StoredTopic]:
        return self._run(self._reader.topics())

    def ends(self) -> list[tuple[str, int, int]]:
        """Topic, partition and end offset of every partition of groupd's own topics."""
        names = {topic.topic_id.hex(): topic.name for topic in self.topics()}
        found = []
        for state in self._run(self._reader.states()):
            named = partition_of(Path(state.name))
            if named is not None and named[0] in names:
                found.append((names[named[0]], named[1], state.next_offset))
        return sorted(found)

    def ends_by_time(self, step_ms: int) -> Iterator[tuple[str, int, int, int]]:
        """Topic, partition, end offset and time, from the timestamps of the records. For each step
        of time in which an end offset moved there are two: just before it moved, and after its last
        move."""
        starts = {state.name: state.start_offset for state in self._run(self._reader.states())}
        for topic in self.topics():
            for partition in range(topic.partitions):
                name = f"{topic.topic_id.hex()}-{partition}"
                before = starts.get(name, 0)
                for first_ms, last_ms, end in self._run(self._reader.ends_by_time(name, step_ms)):
                    yield topic.name, partition, before, first_ms - 1
                    yield topic.name, partition, end, last_ms
                    before = end

    def first_offset_at(self, partition: int, time_ms: int) -> int | None:
        """The base offset of the first batch with a record at or after that time; None if there is
        none."""
        name = self._log.store_name(partition)
        found = self._run(self._reader.first_at_or_after(name, time_ms))
        return None if found is None else found.base_offset

    def row_ends(self, partition: int, from_offset: int, until_offset: int) -> list[int]:
        name = self._log.store_name(partition)
        return self._run(self._reader.row_ends(name, from_offset, until_offset))

    def page(self, partition: int, from_offset: int, until_offset: int) -> LogPage:
        """One page of the log. Raises LogError if the log is not there any more."""
        name = self._log.store_name(partition)
        page = self._run(self._reader.page(name, from_offset, until_offset, PAGE_BYTES))
        if page is None:
            raise LogError(f"log {name}: is not there any more")
        return page


def add_rows(out: LogRows, partition: int, rows: list[StoredRow], position: int, end: int) -> int:
    """Adds the records in `rows` and returns the offset behind them. `position`: where the rows
    should begin. `end`: where the reading ends; if there are no rows, everything before it is
    missing."""
    for row in rows:
        stored = row.batch
        if row.intact and stored.base_offset > position:
            missing = f"the batches at offsets {position} to {stored.base_offset - 1} are missing"
            out.add_corrupt(partition, position, stored.max_timestamp_ms, missing)
        if row.intact:
            _add_batches(out, partition, row)
        else:
            at = max(position, min(stored.base_offset, stored.last_offset))
            wrong = f"the row at offset {stored.base_offset} has a wrong checksum"
            out.add_corrupt(partition, at, stored.max_timestamp_ms, wrong)
        position = max(position, stored.last_offset + 1)
    if not rows and position < end:
        missing = f"the batches at offsets {position} to {end - 1} are missing"
        out.add_corrupt(partition, position, -1, missing)
        return end
    return position


def _add_batches(out: LogRows, partition: int, row: StoredRow) -> None:
    stored = row.batch
    try:
        for batch in iter_batches(stored.payload):
            out.add_payload(partition, batch.payload, batch.header)
    except CorruptBatch as error:
        out.add_corrupt(partition, stored.base_offset, stored.max_timestamp_ms, str(error))
