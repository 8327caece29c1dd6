"""Reads and writes Kafka's segment files, and gives the batches of a coordinator's log from a store
or from such files.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Protocol

from groupd.coordinator.logtools.entries import LogToolError
from groupd.coordinator.logtools.logs import LOGS, OFFSETS_LOG, ToolLog
from groupd.protocol.records.batch import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    CorruptBatch,
    check,
    iter_batches,
    parse_header,
)
from groupd.storage.log import LogError, LogState
from groupd.storage.private_files import make_private_directory, private
from groupd.storage.reader import StoreReader

# A partition is a directory, such as `__consumer_offsets-<n>`. A segment file is named by its first
# offset in 20 digits and holds batches one after the other. The broker makes the indexes and
# snapshots beside it again if they are missing.

SEGMENT_BYTES = 104857600
"""The default of Kafka's `offsets.topic.segment.bytes`."""

BATCH_BYTES_MAX = 256 * 1024 * 1024
"""The length from which on a batch counts as damaged, so that no memory is reserved for it."""

_DIRECTORY = re.compile(r"(.+)-(\d+)", re.ASCII)
_SEGMENT = re.compile(r"(\d{20})\.log", re.ASCII)
_LENGTH_END = 12


class RawBatch(NamedTuple):
    """The bytes of a batch, of which only the length is checked."""

    at: int
    header: BatchHeader
    payload: bytes


class TruncatedSegment(CorruptBatch):
    """The file ends inside a batch, as after a crash."""


def read_segment(path: Path) -> Iterator[RawBatch]:
    """The batches of one file in order, one in memory at a time. Zero bytes at the end are space
    that Kafka has reserved. Raises CorruptBatch with the position in the file at which reading had
    to stop."""
    with path.open("rb") as file:
        at = 0
        while head := file.read(HEADER_BYTES):
            if not any(head):
                return
            if len(head) < _LENGTH_END:
                raise TruncatedSegment(f"{path.name}: {len(head)} bytes at byte {at} are no batch")
            try:
                header = parse_header(head.ljust(HEADER_BYTES, b"\0"))
            except CorruptBatch as error:
                raise type(error)(f"{path.name}, byte {at}: {error}") from error
            if header.size > BATCH_BYTES_MAX:
                raise CorruptBatch(f"{path.name}, byte {at}: batch length {header.length}")
            payload = head + file.read(header.size - len(head))
            if len(payload) < header.size:
                raise TruncatedSegment(
                    f"{path.name}, byte {at}: the file ends {header.size - len(payload)} bytes "
                    "before its last batch does"
                )
            yield RawBatch(at, header, payload)
            at += header.size


def partition_of(directory: Path) -> tuple[str, int] | None:
    """The (topic, partition) in a directory's name; None for another name."""
    found = _DIRECTORY.fullmatch(directory.name)
    return None if found is None else (found[1], int(found[2]))


def segment_files(directory: Path) -> list[Path]:
    """The segment files in a partition's directory, sorted by offset."""
    return sorted(path for path in directory.iterdir() if _SEGMENT.fullmatch(path.name))


def is_segment(path: Path) -> bool:
    return path.is_file() and path.suffix == ".log"


def partition_files(path: Path, log: ToolLog = OFFSETS_LOG) -> dict[int, list[Path]]:
    """The segment files of `log` at `path` by partition. `path` is a segment file, a partition's
    directory, or a directory with partition directories, such as a broker's log directory. Empty if
    only another log is there. Raises LogToolError if `path` has no log."""
    topics = [one.topic for one in LOGS]
    found: dict[tuple[str, int], list[Path]] = {}
    if is_segment(path):
        named = partition_of(path.resolve().parent)
        if named is None or named[0] not in topics:
            named = OFFSETS_LOG.topic, -1
        found[named] = [path]
    elif not path.is_dir():
        raise LogToolError(f"{path}: is neither a segment file nor a directory")
    else:
        for directory in (path.resolve(), *path.iterdir()):
            named = partition_of(directory)
            if named is not None and named[0] in topics and directory.is_dir():
                found[named] = segment_files(directory)
    if not found:
        raise LogToolError(f"{path}: holds no {OFFSETS_LOG.topic}-<n> directory")
    return {number: files for (topic, number), files in sorted(found.items()) if topic == log.topic}


class SegmentWriter:
    """Writes one partition's batches into segment files below `root`. A context manager. Raises
    LogToolError if the partition's directory has segment files already, because batches of two logs
    must never be in one directory. `close` makes everything durable and writes the leader epoch
    checkpoint for the files (epoch 0 from the first offset on)."""

    def __init__(
        self,
        root: Path,
        partition: int,
        segment_bytes: int = SEGMENT_BYTES,
        log: ToolLog = OFFSETS_LOG,
    ) -> None:
        self.directory = root / f"{log.topic}-{partition}"
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None
        self._size = 0
        self._first_offset: int | None = None
        self._leader_epochs: list[tuple[int, int]] = []
        if self.directory.is_dir() and segment_files(self.directory):
            raise LogToolError(
                f"{self.directory}: has segment files already: choose an empty directory"
            )

    def __enter__(self) -> SegmentWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_segment()
        if kind is None and self._leader_epochs:
            lines = ["0", str(len(self._leader_epochs))]
            lines += [f"{epoch} {start}" for epoch, start in self._leader_epochs]
            with (self.directory / "leader-epoch-checkpoint").open("w") as file:
                file.write("\n".join(lines) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def write(self, header: BatchHeader, payload: bytes) -> None:
        """Append one batch; offsets must ascend."""
        if self._file is None or self._is_full(header, len(payload)):
            self._end_segment()
            make_private_directory(self.directory)
            path = self.directory / f"{header.base_offset:020d}.log"
            self._file = os.fdopen(private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
            self._size = 0
            self._first_offset = header.base_offset
        self._file.write(payload)
        self._size += len(payload)
        if not self._leader_epochs or header.leader_epoch > self._leader_epochs[-1][0]:
            self._leader_epochs.append((max(header.leader_epoch, 0), header.base_offset))

    def _is_full(self, header: BatchHeader, size: int) -> bool:
        # Kafka's indexes store 32-bit offsets relative to the file's first offset.
        assert self._first_offset is not None
        too_far = header.last_offset - self._first_offset > 2**31 - 1
        return too_far or self._size + size > self._segment_bytes

    def _end_segment(self) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None


READ_BYTES = 1024 * 1024


class LogSource(Protocol):
    """A source of batches: the partitions of `log`."""

    log: ToolLog

    async def partitions(self) -> list[int]:
        """The partitions that exist, ascending. -1 = a segment file whose directory names no
        partition."""
        ...

    def batches(self, partition: int, from_ms: int | None = None) -> AsyncIterator[Batch]:
        """The batches in order, with checked checksums; a few are in memory at a time. A source may
        leave out the batches before the first one that has a record at or after `from_ms`. Raises
        LogToolError if a batch is damaged."""
        ...


def log_name(partition: int, log: ToolLog = OFFSETS_LOG) -> str:
    """The name of a partition in the output of the tools."""
    return log.topic if partition < 0 else f"{log.topic}-{partition}"


class StoreSource:
    """The logs of the shards in a store. Batches that are appended during the reading may be
    missing."""

    def __init__(self, reader: StoreReader, log: ToolLog = OFFSETS_LOG) -> None:
        self.log = log
        self._reader = reader
        self._states: dict[int, LogState] = {}

    async def partitions(self) -> list[int]:
        self._states = {}
        for state in await self._reader.states():
            partition = self.log.partition_in_store(state.name)
            if partition is not None:
                self._states[partition] = state
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
            raise LogToolError(f"{log_name(partition, self.log)}: {error}") from error


class SegmentSource:
    """Segment files below a path. A file may end with an incomplete batch, as after a crash of the
    broker, which removes it when it starts again."""

    def __init__(self, path: Path, log: ToolLog = OFFSETS_LOG) -> None:
        self.log = log
        self._files = partition_files(path, log)

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
