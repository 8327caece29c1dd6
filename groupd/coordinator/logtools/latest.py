"""The final state of a log: the newest record of each key, with transactions resolved. The rules
are those of the coordinator's replay and compaction (docs/spec/offsets-and-log.md#3.4, #8). The
records that are left, in the order of the log, bring a new coordinator into the same state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import NamedTuple

from msgspec import Struct, field

from groupd.coordinator.history.pending import PendingRecords
from groupd.coordinator.logtools.entries import (
    MARKER,
    UNHELD_TYPES,
    LogEntry,
    LogToolError,
    entries_of,
)
from groupd.coordinator.logtools.logs import OFFSETS_LOG
from groupd.coordinator.logtools.segments import LogSource, log_name
from groupd.protocol.records.batch import Batch, CorruptBatch
from groupd.protocol.records.codec import (
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    decode_record,
    encode_key,
)
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.protocol.records.schema import Record


class Kept(NamedTuple):
    """A record that counts: its encoded bytes and its time. `offset`: its offset in the source."""

    group: str
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes

    @property
    def record(self) -> Record:
        return decode_record(self.key, self.value)


class Tally(Struct):
    """Counts records that were read but not kept. `other_groups`: the ids of streams groups."""

    read: int = 0
    aborted: int = 0
    open_records: int = 0
    open_producers: set[int] = field(default_factory=set)
    other_groups: set[str] = field(default_factory=set)
    unknown_types: Counter[str] = field(default_factory=Counter)


class _Newest(NamedTuple):
    offset: int
    timestamp_ms: int
    group: str
    value: bytes | None


class LatestEntries(ABC):
    """Takes the entries of one partition of `log` in order. All methods raise LogToolError if a
    record cannot be read, because nothing may be left out silently."""

    log = OFFSETS_LOG

    def __init__(self, name: str, groups: frozenset[str], tally: Tally) -> None:
        self._name = name
        self._groups = groups
        self._tally = tally

    def add_batch(self, batch: Batch) -> None:
        try:
            for entry in entries_of(batch, self.log):
                self.add(entry)
        except (CorruptBatch, UnsupportedCodec) as error:
            where = f"{self._name} at offset {batch.header.base_offset}"
            raise LogToolError(f"{where}: {error}") from error

    @abstractmethod
    def add(self, entry: LogEntry) -> None: ...

    @abstractmethod
    def kept(self) -> list[Kept]:
        """The records that count, in the order of the log."""


class LatestRecords(LatestEntries):
    """The newest record of each key."""

    def __init__(self, name: str, groups: frozenset[str], tally: Tally) -> None:
        super().__init__(name, groups, tally)
        self._newest: dict[bytes, _Newest] = {}
        self._pending: PendingRecords[bytes, _Newest] = PendingRecords()

    def add(self, entry: LogEntry) -> None:
        if entry.kind == MARKER:
            if entry.marker is not None:
                self._end(entry.header.producer_id, committed=entry.marker.committed)
            return
        self._tally.read += 1
        if entry.error is not None:
            raise LogToolError(f"{self._name} at offset {entry.raw.offset}: {entry.error}")
        if entry.record is None:
            self._count_unheld(entry)
            return
        if self._groups and entry.group not in self._groups:
            return
        key = entry.raw.key or b""
        if entry.number == LEGACY_OFFSET_COMMIT:
            key = encode_key(entry.record.key)
        found = _Newest(
            entry.raw.offset, entry.raw.timestamp_ms, entry.group or "", entry.raw.value
        )
        offset_commit = entry.number in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT)
        if found.value is None and offset_commit:
            self._pending.drop(key)
        if found.value is not None and offset_commit and entry.header.is_transactional:
            self._pending.add(entry.header.producer_id, key, found)
        else:
            self._newest[key] = found

    def _count_unheld(self, entry: LogEntry) -> None:
        if entry.group is not None and entry.number in UNHELD_TYPES:
            if not self._groups or entry.group in self._groups:
                self._tally.other_groups.add(entry.group)
        else:
            self._tally.unknown_types[entry.kind] += 1

    def _end(self, producer_id: int, *, committed: bool) -> None:
        for key, found in self._pending.take(producer_id).items():
            if not committed:
                self._tally.aborted += 1
                continue
            current = self._newest.get(key)
            if current is None or found.offset > current.offset:
                self._newest[key] = found

    def kept(self) -> list[Kept]:
        """Tombstones are left out, because they have had their effect. Records of open transactions
        are left out and counted."""
        for producer_id, pending in self._pending.by_producer.items():
            if pending:
                self._tally.open_records += len(pending)
                self._tally.open_producers.add(producer_id)
        kept = [
            Kept(found.group, found.offset, found.timestamp_ms, key, found.value)
            for key, found in self._newest.items()
            if found.value is not None
        ]
        kept.sort(key=lambda one: one.offset)
        return kept


async def latest_of(
    source: LogSource,
    groups: frozenset[str],
    tally: Tally,
    kind: type[LatestEntries] = LatestRecords,
) -> list[Kept]:
    """The records of all partitions, one partition after the other. Raises LogToolError, also if
    the offsets log has a group in two partitions, because then it is not known which of its records
    are newer."""
    places: dict[str, int] = {}
    kept: list[Kept] = []
    for partition in await source.partitions():
        latest = kind(log_name(partition, source.log), groups, tally)
        async for batch in source.batches(partition):
            latest.add_batch(batch)
        for one in latest.kept():
            other = places.setdefault(one.group, partition)
            if other != partition and source.log == OFFSETS_LOG:
                raise LogToolError(
                    f"group {one.group} stands in partitions {other} and {partition}: these are "
                    "logs of different clusters; take them one at a time"
                )
            kept.append(one)
    return kept
