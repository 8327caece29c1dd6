"""Turns batches into entries: one entry for each record, decoded if possible."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from groupd.coordinator.logtools.record_types import MARKER, group_of, type_name
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    MarkerRecord,
    decode_marker,
    iter_records,
)
from groupd.protocol.records.codec import (
    CorruptRecord,
    UnknownRecordType,
    decode_record,
    record_type,
)
from groupd.protocol.records.schema import Record

UNREADABLE = "unreadable"
"""The kind of a record whose key is missing or too short to name a type."""


class LogEntry(Struct, frozen=True):
    """One record and where it stands. `kind`: its type's name, or `marker`. `record`: None for
    markers, types that are not held here, and what does not decode (`error` says why)."""

    header: BatchHeader
    raw: BatchRecord
    kind: str
    number: int | None = None
    group: str | None = None
    record: Record | None = None
    marker: MarkerRecord | None = None
    error: str | None = None

    @property
    def producer(self) -> tuple[int, int] | None:
        """The producer's (id, epoch), or None outside transactions."""
        if self.header.producer_id < 0:
            return None
        return self.header.producer_id, self.header.producer_epoch


def entries_of(batch: Batch) -> Iterator[LogEntry]:
    """Raises CorruptBatch and UnsupportedCodec; records that do not decode are entries too."""
    for raw in iter_records(batch):
        if batch.header.is_control:
            yield LogEntry(batch.header, raw, MARKER, marker=decode_marker(raw))
        else:
            yield entry_of(batch.header, raw)


def entry_of(header: BatchHeader, raw: BatchRecord) -> LogEntry:
    """The entry of a record that is no control record."""
    if raw.key is None:
        return LogEntry(header, raw, UNREADABLE, error="a record without a key")
    try:
        number = record_type(raw.key)
    except CorruptRecord as corrupt:
        return LogEntry(header, raw, UNREADABLE, error=str(corrupt))
    kind, group = type_name(number), group_of(raw.key)
    try:
        record = decode_record(raw.key, raw.value)
    except UnknownRecordType:
        return LogEntry(header, raw, kind, number, group)
    except CorruptRecord as corrupt:
        return LogEntry(header, raw, kind, number, group, error=str(corrupt))
    return LogEntry(header, raw, kind, number, group, record)
