"""Decodes records of the log into rows of `schema.ENTRIES`, as Arrow record batches.

The same code serves every input. One record gives one row. A batch that cannot be taken apart gives
one row of type `corrupt-batch`, and a record that cannot be decoded gives a row with `error`: no
record is lost, and damage does not end the reading. Only the requested columns are built, and a
value is decoded only if one of them, or `error`, needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from groupd.coordinator.logtools.entries import (
    MARKER,
    TYPE_NAMES,
    LogEntry,
    entry_of,
    group_of,
    type_name,
)
from groupd.pipeline.columns import COMMIT, EntryColumns
from groupd.pipeline.row_filter import EVERYTHING, RowFilter
from groupd.pipeline.schema import ENTRIES, VALUE_COLUMNS
from groupd.pipeline.values import LAST_MS, OutOfRange, key_columns, micros, topic_id_text, value_of
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    check,
    decode_marker,
    iter_records,
)
from groupd.protocol.records.codec import CorruptRecord, RecordDecoder, decode_value
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue

CORRUPT_BATCH = "corrupt-batch"
ROWS_A_BATCH = 8192
"""Rows of one Arrow batch: enough that the cost per batch does not matter, few enough for
memory."""

COLUMNS = tuple(ENTRIES.fieldNames())
_SEQUENCES = 2**31
_COMMIT_V4 = Struct(">hqiBq")
"""Version, offset, leader epoch, length of the metadata + 1 (no metadata), commit time; tagged
fields follow."""
_EMPTY = 1
_TAGS_AT = _COMMIT_V4.size
_COMMIT_SIZES = (_TAGS_AT + 1, _TAGS_AT + 19)
"""Sizes of a commit's value without metadata: without tagged fields, and with a topic id."""
_TOPICS_MAX = 65536
_NO_TAGS = b"\x00"
_COMMIT_KEY = b"\x00\x01"
_COMMIT_VERSION = b"\x00\x04"
_ANY_COMMIT = OffsetCommitKey("", "", 0)

PlainRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""The fields of a `BatchRecord`."""


class RecordSource(NamedTuple):
    """What the header of a batch says about its records; None where the input does not have it."""

    transactional: bool | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    base_offset: int = 0

    def sequence(self, offset: int) -> int:
        """The sequence of the record at `offset`. Needs a base sequence."""
        assert self.base_sequence is not None
        return (self.base_sequence + offset - self.base_offset) % _SEQUENCES


UNKNOWN_SOURCE = RecordSource(None, None, None, None)
"""The source of records from inputs that give keys and values only."""

PLAIN_HEADER = BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)


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
def arrow_schema(columns: tuple[str, ...], table: StructType = ENTRIES) -> pa.Schema:
    """The Arrow schema of `columns` of `table`, in the order of the names, as Spark expects it."""
    return to_arrow_schema(StructType([table[name] for name in columns]), timezone="UTC")


class EntryRows:
    """Takes records and gives Arrow batches. `decoded` counts the records whose value was decoded,
    `errors` the rows with an error."""

    def __init__(self, columns: Sequence[str] = COLUMNS, wanted: RowFilter = EVERYTHING) -> None:
        self.schema = arrow_schema(tuple(columns))
        self.decoded = 0
        self.errors = 0
        self.want(wanted)
        self._values = {n for n, name in VALUE_COLUMNS.items() if name in columns}
        self._check = "error" in columns
        self._with_commits = 1 in self._values or self._check
        self._columns = EntryColumns(self.schema, with_commits=self._with_commits)
        self._decoder = RecordDecoder()
        self._topics: dict[bytes, str | None] = {_NO_TAGS: None}

    def __len__(self) -> int:
        return len(self._columns)

    def want(self, wanted: RowFilter) -> None:
        """Sets which rows are wanted from now on."""
        self._wanted = wanted
        self._all = wanted.everything

    def add_payload(self, partition: int, payload: bytes, header: BatchHeader) -> None:
        """Adds the records of one stored batch. `header`: what could be read of the batch's
        header."""
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
            self._add_marker(raw, marker, source)
        self._columns.run((partition, *source[:4]))

    def add_corrupt(self, partition: int, offset: int, timestamp_ms: int, error: str) -> None:
        """Adds a row for a batch that cannot be taken apart."""
        try:
            time_us = micros(timestamp_ms)
        except OutOfRange:
            time_us = None
        wanted = self._wanted
        if not wanted.offset(offset) or not wanted.time(time_us):
            return
        if wanted.group(None) and wanted.type(CORRUPT_BATCH):
            self._append(offset, time_us, CORRUPT_BATCH, error=error)
            self._columns.run((partition, *UNKNOWN_SOURCE[:4]))

    def _add_marker(self, raw: BatchRecord, marker: Any, source: RecordSource) -> None:
        time_us = self._wanted_time(raw)
        wanted = self._wanted
        if time_us is _UNWANTED or not wanted.group(None) or not wanted.type(MARKER):
            return
        facts: dict[str, Any] = {}
        if marker is not None:
            facts["marker"] = "commit" if marker.committed else "abort"
            facts["coordinator_epoch"] = marker.coordinator_epoch
        self._append(raw.offset, time_us, MARKER, source=source, raw=raw, tombstone=False, **facts)

    def add_records(
        self, partition: int, records: Iterable[PlainRecord], source: RecordSource
    ) -> None:
        """Adds records of a batch that is no control batch."""
        columns, everything, with_commits = self._columns, self._all, self._with_commits
        places, topics, unpack = columns.known_places, self._topics, _COMMIT_V4.unpack_from
        add_offset, add_time = columns.offsets.append, columns.times_ms.append
        add_place, add_value = columns.places.append, columns.values.append
        add_committed, add_epoch = columns.commit_offsets.append, columns.commit_epochs.append
        add_commit_time = columns.commit_times_ms.append
        add_topic = columns.commit_topics.append
        unsequenced = source.base_sequence is None or source.base_sequence < 0
        for raw in records:
            offset, timestamp_ms, key, value, _ = raw
            place = places.get(key)
            if place is None:
                place = self._new_place(key)
            if place is None or value is None or not 0 <= timestamp_ms <= LAST_MS:
                self._add_slowly(raw, source)
                continue
            if not everything and not self._wants_commit(place, offset, timestamp_ms):
                continue
            if not with_commits:
                columns.set_sparse(len(columns), "value_version", _version(value))
            else:
                topic_id = _UNWANTED
                if len(value) in _COMMIT_SIZES:
                    version, committed, epoch, length, time_ms = unpack(value)
                    if version == 4 and length == _EMPTY and 0 <= time_ms <= LAST_MS:
                        topic_id = topics.get(value[_TAGS_AT:], _UNWANTED)
                if topic_id is not _UNWANTED:
                    self.decoded += 1
                    add_committed(committed)
                    add_epoch(epoch)
                    add_commit_time(time_ms)
                    add_topic(topic_id)
                elif not self._add_commit(value):
                    self._add_slowly(raw, source)
                    continue
            if not unsequenced:
                columns.sequence(len(columns), source.sequence(offset))
            add_offset(offset)
            add_time(timestamp_ms)
            add_place(place)
            add_value(value)
        columns.run((partition, *source[:4]))

    def _new_place(self, key: bytes | None) -> int | None:
        """Stores the place that a commit's key names; returns its number. None for other keys."""
        if key is None or key[:2] != _COMMIT_KEY:
            return None
        try:
            decoded = self._decoder.decode(key, None).key
        except CorruptRecord:
            return None
        assert isinstance(decoded, OffsetCommitKey)
        return self._columns.place((*decoded, key), keep=True)

    def _add_commit(self, value: bytes) -> bool:
        """Adds a commit that has metadata or names a topic not seen before. Returns False if its
        format is not today's or a column cannot hold it."""
        if value[:2] != _COMMIT_VERSION:
            return False
        try:
            found = decode_value(_ANY_COMMIT, value)
        except CorruptRecord:
            return False
        assert isinstance(found, OffsetCommitValue)
        if not 0 <= found.commit_timestamp_ms <= LAST_MS:
            return False
        topic_id = topic_id_text(found.topic_id)
        columns = self._columns
        if found.metadata:
            columns.commit_metadata(found.metadata)
        elif len(self._topics) < _TOPICS_MAX:
            self._topics[value[_TAGS_AT:]] = topic_id
        columns.commit_offsets.append(found.offset)
        columns.commit_epochs.append(found.leader_epoch)
        columns.commit_times_ms.append(found.commit_timestamp_ms)
        columns.commit_topics.append(topic_id)
        self.decoded += 1
        return True

    def _wants_commit(self, place: int, offset: int, timestamp_ms: int) -> bool:
        wanted = self._wanted
        return (
            wanted.group(self._columns.group(place))
            and wanted.type(COMMIT)
            and wanted.offset(offset)
            and wanted.time(timestamp_ms * 1000)
        )

    def _wanted_time(self, raw: BatchRecord) -> int | None:
        """The record's time in microseconds, or `_UNWANTED` if the row is not wanted."""
        try:
            time_us = micros(raw.timestamp_ms)
        except OutOfRange:
            time_us = None
        wanted = self._wanted
        return time_us if wanted.offset(raw.offset) and wanted.time(time_us) else _UNWANTED

    def _add_slowly(self, plain: PlainRecord, source: RecordSource) -> None:
        raw = BatchRecord._make(plain)
        time_us = self._wanted_time(raw)
        if time_us is _UNWANTED:
            return
        entry = self._entry(raw)
        if entry is None:
            return
        number, record = entry.number, entry.record
        facts: dict[str, Any] = {"number": number, "error": entry.error}
        member = topic = at = None
        value: dict[str, Any] | None = None
        if record is not None:
            member, topic, at = key_columns(record)
            try:
                value = value_of(record) if number in self._values or self._check else None
            except OutOfRange as error:
                facts["error"] = str(error)
        elif entry.error is None and number is not None and number not in TYPE_NAMES:
            facts["error"] = f"unknown record type {number}"
        if time_us is None and raw.timestamp_ms != -1 and facts["error"] is None:
            facts["error"] = f"a time outside of the years 1 to 9999: {raw.timestamp_ms} ms"
        if number in self._values:
            facts["struct"] = value
        columns = self._columns
        place = None if record is None else columns.known_places.get(raw.key)
        if place is None:
            place = columns.place((entry.group, topic, at, raw.key))
        self._append(
            raw.offset,
            time_us,
            entry.kind,
            source=source,
            raw=raw,
            place=place,
            member=member,
            **facts,
        )

    def _entry(self, raw: BatchRecord) -> LogEntry | None:
        """The decoded entry; None if it is not wanted. Mostly the key alone decides that."""
        wanted = self._wanted
        if not self._all and raw.key is not None and len(raw.key) >= 2:
            name = type_name(int.from_bytes(raw.key[:2], "big", signed=True))
            if not wanted.type(name) or not wanted.group(group_of(raw.key)):
                return None
        entry = entry_of(PLAIN_HEADER, raw)
        if not wanted.type(entry.kind) or not wanted.group(entry.group):
            return None
        self.decoded += 1
        return entry

    def _append(
        self,
        offset: int,
        time_us: int | None,
        kind: str,
        *,
        source: RecordSource = UNKNOWN_SOURCE,
        raw: BatchRecord | None = None,
        place: int | None = None,
        number: int | None = None,
        tombstone: bool | None = None,
        error: str | None = None,
        struct: dict[str, Any] | None = None,
        **sparse: Any,
    ) -> None:
        columns, row = self._columns, len(self._columns)
        columns.struct(None if number is None else VALUE_COLUMNS.get(number), struct)
        version = None
        if raw is not None:
            tombstone = raw.value is None if tombstone is None else tombstone
            version = _version(raw.value) if number is not None else None
            if source.base_sequence is not None and source.base_sequence >= 0:
                columns.sequence(row, source.sequence(raw.offset))
        if error is not None:
            self.errors += 1
        if place is None:
            place = columns.place((None, None, None, None if raw is None else raw.key))
        columns.set_sparse(row, "record_type", kind)
        columns.set_sparse(row, "record_type_id", number)
        columns.set_sparse(row, "value_version", version)
        columns.set_sparse(row, "tombstone", tombstone)
        columns.set_sparse(row, "error", error)
        for name, value in sparse.items():
            columns.set_sparse(row, name, value)
        columns.offsets.append(offset)
        columns.times_ms.append(None if time_us is None else time_us // 1000)
        columns.places.append(place)
        columns.values.append(None if raw is None else raw.value)

    def take(self) -> pa.RecordBatch:
        """Returns the collected rows and forgets them."""
        return self._columns.take()


_UNWANTED: Any = object()


def _version(value: bytes | None) -> int | None:
    if value is None or len(value) < 2:
        return None
    return int.from_bytes(value[:2], "big", signed=True)
