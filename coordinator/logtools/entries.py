"""Turns batches into entries: one entry for each record, decoded if possible."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from groupd.coordinator.logtools.record_types import MARKER, group_of, type_name
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    Marker,
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


class Entry(Struct, frozen=True):
    """One record and its place. `kind`: the name of its type, or `marker`. `record`: None for
    markers, for types that are not held here, and for records that cannot be decoded (`error` says
    why)."""

    header: BatchHeader
    raw: BatchRecord
    kind: str
    number: int | None = None
    group: str | None = None
    record: Record | None = None
    marker: Marker | None = None
    error: str | None = None

    @property
    def producer(self) -> tuple[int, int] | None:
        """The producer's (id, epoch), or None outside transactions."""
        if self.header.producer_id < 0:
            return None
        return self.header.producer_id, self.header.producer_epoch


def entries_of(batch: Batch) -> Iterator[Entry]:
    """The entries of a batch. A record that cannot be decoded is an entry, too. Raises CorruptBatch
    and UnsupportedCodec."""
    for raw in iter_records(batch):
        if batch.header.is_control:
            yield Entry(batch.header, raw, MARKER, marker=decode_marker(raw))
        else:
            yield entry_of(batch.header, raw)


def entry_of(header: BatchHeader, raw: BatchRecord) -> Entry:
    """The entry of a record that is not a control record."""
    if raw.key is None:
        return Entry(header, raw, UNREADABLE, error="a record without a key")
    try:
        number = record_type(raw.key)
    except CorruptRecord as corrupt:
        return Entry(header, raw, UNREADABLE, error=str(corrupt))
    kind, group = type_name(number), group_of(raw.key)
    try:
        record = decode_record(raw.key, raw.value)
    except UnknownRecordType:
        return Entry(header, raw, kind, number, group)
    except CorruptRecord as corrupt:
        return Entry(header, raw, kind, number, group, error=str(corrupt))
    return Entry(header, raw, kind, number, group, record)
