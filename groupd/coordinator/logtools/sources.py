"""Where batches of `__consumer_offsets` come from: a store or Kafka's segment files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.segments import (
    TruncatedSegment,
    offsets_partitions,
    partition_of,
    read_segment,
)
from groupd.protocol.records.batch import Batch, CorruptBatch, check, iter_batches
from groupd.storage.log import LogError, LogState
from groupd.storage.reader import StoreReader

READ_BYTES = 1024 * 1024


class LogSource(Protocol):
    """Partitions of an offsets log."""

    async def partitions(self) -> list[int]:
        """The partitions that exist, ascending. -1 = a segment file whose directory names no
        partition."""
        ...

    def batches(self, partition: int, from_ms: int | None = None) -> AsyncIterator[Batch]:
        """The batches in order, with right checksums; a few are in memory at a time. A source may
        leave out the batches before the first one that has a record at or after `from_ms`. Raises
        LogToolError where a batch is damaged."""
        ...


def log_name(partition: int) -> str:
    """The name of a partition in the output of the tools."""
    return OFFSETS_TOPIC if partition < 0 else f"{OFFSETS_TOPIC}-{partition}"


class StoreSource:
    """The shards' logs of a store. Batches that are appended while it is read may be missing."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._states: dict[int, LogState] = {}

    async def partitions(self) -> list[int]:
        self._states = {}
        for state in await self._reader.states():
            named = partition_of(Path(state.name))
            if named is not None and named[0] == OFFSETS_TOPIC:
                self._states[named[1]] = state
        return sorted(self._states)

    async def batches(self, partition: int, from_ms: int | None = None) -> AsyncIterator[Batch]:
        state = self._states[partition]
        offset = state.start_offset
        try:
            if from_ms is not None:
                first = await self._reader.first_at_or_after(state.name, from_ms)
                offset = state.next_offset if first is None else first.base_offset
            while offset < state.next_offset:
                stored = await self._reader.read(state.name, offset, READ_BYTES)
                if not stored:
                    return  # the log was truncated meanwhile
                for one in stored:
                    for batch in iter_batches(one.payload):
                        check(batch.payload)
                        yield batch
                offset = stored[-1].last_offset + 1
        except (LogError, CorruptBatch) as error:
            raise LogToolError(f"{log_name(partition)}: {error}") from error


class SegmentSource:
    """Segment files below a path. A last batch that is cut off ends its file without an error: a
    broker that crashed leaves one, and removes it when it starts again."""

    def __init__(self, path: Path) -> None:
        self._files = offsets_partitions(path)

    async def partitions(self) -> list[int]:
        return list(self._files)

    async def batches(self, partition: int, from_ms: int | None = None) -> AsyncIterator[Batch]:
        files = self._files[partition]
        for number, path in enumerate(files):
            try:
                for raw in read_segment(path):
                    check(raw.payload)
                    yield Batch(raw.header, raw.payload)
            except TruncatedSegment as error:
                if number < len(files) - 1:
                    raise LogToolError(f"{path.parent}: {error}") from error
            except CorruptBatch as error:
                raise LogToolError(f"{path.parent}: {error}") from error
            except OSError as error:
                raise LogToolError(f"{path}: {error.strerror}") from error
