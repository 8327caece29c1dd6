"""Records of the log -> rows of `schema.ENTRIES`, as Arrow record batches.

The same for every input. A row is a record; a batch that cannot be taken apart is one row of type
`corrupt-batch`, and a record that cannot be decoded is a row with `error`: nothing that is read is
lost and nothing that is damaged ends the reading. Only the columns that are asked for are built,
and values are decoded only where one of them, or `error`, needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from coordinator.logtools.entries import Entry, entry_of
from coordinator.logtools.record_types import MARKER, TYPE_NAMES, group_of, type_name
from pipeline.schema import ENTRIES, VALUE_COLUMNS
from pipeline.values import LAST_MS, NotHeld, key_columns, micros, topic_id_text, value_of
from pipeline.wanted import EVERYTHING, Wanted
from protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    check,
    decode_marker,
    iter_records,
)
from protocol.records.compression import UnsupportedCodec
from protocol.records.offset_records import CommitReader

CORRUPT_BATCH = "corrupt-batch"
ROWS_A_BATCH = 8192
"""Rows of one Arrow batch: large enough to cost nothing, small enough for any memory."""

COLUMNS = tuple(ENTRIES.fieldNames())
PLAIN_COLUMNS = tuple(name for name in COLUMNS if name not in VALUE_COLUMNS.values())
_COMMIT = TYPE_NAMES[1]
_COMMIT_COLUMN = VALUE_COLUMNS[1]
_SEQUENCES = 2**31


class RecordSource(NamedTuple):
    """What a batch's header says of its records; None where the input does not tell."""

    transactional: bool | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    base_offset: int = 0

    def sequence(self, offset: int) -> int | None:
        base = self.base_sequence
        if base is None or base < 0:
            return base
        return (base + offset - self.base_offset) % _SEQUENCES


UNTOLD = RecordSource(None, None, None, None)
"""Of inputs that give keys and values only."""

_PLAIN_HEADER = BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)


def source_of(header: BatchHeader) -> RecordSource:
    if header.producer_id < 0:
        return RecordSource(header.is_transactional, None, None, -1)
    return RecordSource(
        header.is_transactional,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence if header.base_sequence >= 0 else -1,
        header.base_offset,
    )


@cache
def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Of `columns` of ENTRIES, in the order of the names, as Spark wants it. Raises ValueError for
    a name that there is not."""
    for name in columns:
        if name not in COLUMNS:
            raise ValueError(f"there is no column {name}: there are {', '.join(COLUMNS)}")
    return to_arrow_schema(StructType([ENTRIES[name] for name in columns]), timezone="UTC")


class EntryRows:
    """Takes records in, gives Arrow batches out. `decoded`: records whose value was decoded,
    `errors`: rows with an error, so far."""

    def __init__(self, columns: Sequence[str] = COLUMNS, wanted: Wanted = EVERYTHING) -> None:
        self.schema = arrow_schema(tuple(columns))
        self.decoded = 0
        self.errors = 0
        self.want(wanted)
        self._values = {n for n, name in VALUE_COLUMNS.items() if name in columns}
        self._check = "error" in columns
        self._rows: list[tuple[Any, ...]] = []
        # Struct columns hold few rows or nearly all, so: the row numbers, and the values.
        self._commits: list[tuple[Any, ...]] = []
        self._structs: dict[str, tuple[list[int], list[dict[str, Any]]]] = {
            name: ([], []) for name in VALUE_COLUMNS.values() if name in columns
        }
        self._reader = CommitReader()

    def __len__(self) -> int:
        return len(self._rows)

    def want(self, wanted: Wanted) -> None:
        """From here on."""
        self._wanted = wanted
        self._all = wanted.everything

    def add_payload(self, partition: int, payload: bytes, header: BatchHeader) -> None:
        """One batch as it is stored. `header`: what could be read of it."""
        if not self._wanted.batch(header):
            return
        try:
            check(payload)
            records = list(iter_records(Batch(header, payload)))
            if header.is_control:
                markers = [(raw, decode_marker(raw)) for raw in records]
        except (CorruptBatch, UnsupportedCodec) as error:
            self.add_corrupt(partition, header.base_offset, header.max_timestamp_ms, str(error))
            return
        source = source_of(header)
        if not header.is_control:
            self.add_records(partition, records, source)
            return
        for raw, marker in markers:
            self._add_marker(partition, raw, marker, source)

    def add_corrupt(self, partition: int, offset: int, timestamp_ms: int, error: str) -> None:
        """A batch that cannot be taken apart."""
        try:
            time_us = micros(timestamp_ms)
        except NotHeld:
            time_us = None
        wanted = self._wanted
        if not wanted.offset(offset) or not wanted.time(time_us):
            return
        if wanted.group(None) and wanted.type(CORRUPT_BATCH):
            self._append(partition, offset, time_us, CORRUPT_BATCH, error=error)

    def _add_marker(
        self, partition: int, raw: BatchRecord, marker: Any, source: RecordSource
    ) -> None:
        time_us = self._wanted_time(raw)
        wanted = self._wanted
        if time_us is _UNWANTED or not wanted.group(None) or not wanted.type(MARKER):
            return
        told: dict[str, Any] = {}
        if marker is not None:
            told["marker"] = "commit" if marker.committed else "abort"
            told["coordinator_epoch"] = marker.coordinator_epoch
        self._append(
            partition, raw.offset, time_us, MARKER, source=source, raw=raw, tombstone=False, **told
        )

    def add_records(
        self, partition: int, records: Iterable[BatchRecord], source: RecordSource
    ) -> None:
        """Records that are no control records."""
        place, value_of_commit = self._reader.place, self._reader.value
        everything, rows, commits = self._all, self._rows, self._commits
        with_values = 1 in self._values or self._check
        transactional, producer_id, producer_epoch, base_sequence, _ = source
        fixed_sequence = base_sequence is None or base_sequence < 0
        for raw in records:
            offset, timestamp_ms, key, value, _headers = raw
            where = None if key is None else place(key)
            if where is None or value is None or not 0 <= timestamp_ms <= LAST_MS:
                self._add_slowly(partition, raw, source)
                continue
            group, topic, number = where
            if not everything and not self._wants_commit(raw, group):
                continue
            if with_values:
                found = value_of_commit(value)
                if found is None or not 0 <= found.commit_timestamp_ms <= LAST_MS:
                    self._add_slowly(partition, raw, source)
                    continue
                self.decoded += 1
                commits.append(
                    (
                        len(rows),
                        found.offset,
                        found.leader_epoch,
                        found.metadata,
                        found.commit_timestamp_ms * 1000,
                        None,
                        topic_id_text(found.topic_id),
                    )
                )
            # In the order of PLAIN_COLUMNS.
            rows.append(
                (
                    partition,
                    offset,
                    timestamp_ms * 1000,
                    _COMMIT,
                    1,
                    _version(value),
                    group,
                    None,
                    topic,
                    number,
                    False,
                    transactional,
                    producer_id,
                    producer_epoch,
                    base_sequence if fixed_sequence else source.sequence(offset),
                    None,
                    None,
                    key,
                    value,
                    None,
                )
            )

    def _wants_commit(self, raw: BatchRecord, group: str) -> bool:
        wanted = self._wanted
        return (
            wanted.group(group)
            and wanted.type(_COMMIT)
            and wanted.offset(raw.offset)
            and wanted.time(raw.timestamp_ms * 1000)
        )

    def _wanted_time(self, raw: BatchRecord) -> int | None:
        """Microseconds, or `_UNWANTED`."""
        try:
            time_us = micros(raw.timestamp_ms)
        except NotHeld:
            time_us = None
        wanted = self._wanted
        return time_us if wanted.offset(raw.offset) and wanted.time(time_us) else _UNWANTED

    def _add_slowly(self, partition: int, raw: BatchRecord, source: RecordSource) -> None:
        time_us = self._wanted_time(raw)
        if time_us is _UNWANTED:
            return
        entry = self._entry(raw)
        if entry is None:
            return
        number, record = entry.number, entry.record
        told: dict[str, Any] = {"number": number, "group": entry.group, "error": entry.error}
        if record is not None:
            told["member"], told["topic"], told["partition"] = key_columns(record)
            self._hold(record, number, told)
        elif entry.error is None and number is not None and number not in TYPE_NAMES:
            told["error"] = f"unknown record type {number}"
        if time_us is None and raw.timestamp_ms != -1 and told["error"] is None:
            told["error"] = f"a time outside of the years 1 to 9999: {raw.timestamp_ms} ms"
        self._append(partition, raw.offset, time_us, entry.kind, source=source, raw=raw, **told)

    def _entry(self, raw: BatchRecord) -> Entry | None:
        """None when it is not wanted, which is mostly told by the key."""
        wanted = self._wanted
        if not self._all and raw.key is not None and len(raw.key) >= 2:
            name = type_name(int.from_bytes(raw.key[:2], "big", signed=True))
            if not wanted.type(name) or not wanted.group(group_of(raw.key)):
                return None
        entry = entry_of(_PLAIN_HEADER, raw)
        if not wanted.type(entry.kind) or not wanted.group(entry.group):
            return None
        self.decoded += 1
        return entry

    def _hold(self, record: Any, number: int | None, told: dict[str, Any]) -> None:
        if number not in self._values and not self._check:
            return
        try:
            value = value_of(record)
        except NotHeld as error:
            told["error"] = str(error)
            return
        if value is None or number not in self._values:
            return
        rows, values = self._structs[VALUE_COLUMNS[number]]
        rows.append(len(self._rows))
        values.append(value)

    def _append(
        self,
        log_partition: int,
        offset: int,
        time_us: int | None,
        kind: str,
        *,
        source: RecordSource = UNTOLD,
        raw: BatchRecord | None = None,
        number: int | None = None,
        group: str | None = None,
        member: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        tombstone: bool | None = None,
        marker: str | None = None,
        coordinator_epoch: int | None = None,
        error: str | None = None,
    ) -> None:
        key = value = version = sequence = None
        if raw is not None:
            key, value, sequence = raw.key, raw.value, source.sequence(raw.offset)
            tombstone = value is None if tombstone is None else tombstone
            version = _version(value) if number is not None else None
        if error is not None:
            self.errors += 1
        head = (log_partition, offset, time_us, kind, number, version, group, member, topic)
        self._rows.append(
            (
                *head,
                partition,
                tombstone,
                *source[:3],
                sequence,
                marker,
                coordinator_epoch,
                key,
                value,
                error,
            )
        )

    def take(self) -> pa.RecordBatch:
        """The rows so far, which are then forgotten."""
        columns = dict(zip(PLAIN_COLUMNS, zip(*self._rows, strict=True), strict=False))
        arrays = []
        for field in self.schema:
            if field.name in self._structs:
                arrays.append(self._struct(field.name, field.type))
            else:
                arrays.append(pa.array(columns.get(field.name, ()), field.type))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self._rows.clear()
        self._commits.clear()
        for rows, values in self._structs.values():
            rows.clear()
            values.clear()
        return batch

    def _struct(self, name: str, kind: pa.StructType) -> pa.Array:
        count = len(self._rows)
        rows, values = self._structs[name]
        at: Sequence[int] = rows
        if name == _COMMIT_COLUMN and self._commits:
            numbers, *columns = zip(*self._commits, strict=True)
            fields = [kind.field(index) for index in range(kind.num_fields)]
            arrays = [pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)]
            found = pa.StructArray.from_arrays(arrays, fields=fields)
            if values:
                found = pa.concat_arrays([found, pa.array(values, kind)])
            at = (*numbers, *rows)
        elif values:
            found = pa.array(values, kind)
        else:
            return pa.nulls(count, kind)
        if len(at) == count and not rows:
            return found
        places: list[int | None] = [None] * count
        for index, row in enumerate(at):
            places[row] = index
        return found.take(pa.array(places, pa.int32()))


_UNWANTED: Any = object()


def _version(value: bytes | None) -> int | None:
    if value is None or len(value) < 2:
        return None
    return int.from_bytes(value[:2], "big", signed=True)


def record_batches(
    partition: int,
    batches: Iterable[Batch],
    columns: Sequence[str] = COLUMNS,
    wanted: Wanted = EVERYTHING,
    rows: int = ROWS_A_BATCH,
) -> Iterator[pa.RecordBatch]:
    """Arrow batches of about `rows` rows of the batches of one log partition."""
    built = EntryRows(columns, wanted)
    for batch in batches:
        built.add_payload(partition, batch.payload, batch.header)
        if len(built) >= rows:
            yield built.take()
    if len(built):
        yield built.take()
