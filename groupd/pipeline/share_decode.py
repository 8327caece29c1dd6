"""Decodes records of `__share_group_state` into rows of `schema.SHARE_ENTRIES`, as `decode` does
for those of `__consumer_offsets`: no record is lost, and damage does not end the reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from groupd.coordinator.logtools.entries import MARKER, LogEntry, entries_of, entry_of
from groupd.coordinator.logtools.logs import SHARE_STATE_LOG
from groupd.pipeline.decode import (
    CORRUPT_BATCH,
    PLAIN_HEADER,
    PlainRecord,
    RecordSource,
    arrow_schema,
)
from groupd.pipeline.row_filter import EVERYTHING, RowFilter
from groupd.pipeline.schema import SHARE_ENTRIES
from groupd.pipeline.values import OutOfRange, micros, struct_of, topic_id_text
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    check,
)
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.protocol.records.share_state_records import ShareSnapshot, ShareUpdate

RANGE_MAX = 2**31
"""No range of a share-partition has more offsets than this."""

_UNKNOWN = -1
SHARE_COLUMNS = tuple(SHARE_ENTRIES.fieldNames())


class ShareEntryRows:
    """Takes records and gives Arrow batches; see `decode.EntryRows`."""

    def __init__(
        self, columns: Sequence[str] = SHARE_COLUMNS, wanted: RowFilter = EVERYTHING
    ) -> None:
        self.schema = arrow_schema(tuple(columns), SHARE_ENTRIES)
        self._rows: list[dict[str, Any]] = []
        self._wanted = wanted

    def __len__(self) -> int:
        return len(self._rows)

    def want(self, wanted: RowFilter) -> None:
        """Sets which rows are wanted from now on."""
        self._wanted = wanted

    def add_payload(self, partition: int, payload: bytes, header: BatchHeader) -> None:
        """Adds the records of one stored batch. `header`: what could be read of the batch's
        header."""
        if not self._wanted.batch(header):
            return
        try:
            check(payload)
            entries = list(entries_of(Batch(header, payload), SHARE_STATE_LOG))
        except (CorruptBatch, UnsupportedCodec) as error:
            self.add_corrupt(partition, header.base_offset, header.max_timestamp_ms, str(error))
            return
        for entry in entries:
            self._add(partition, entry)

    def add_records(
        self, partition: int, records: Iterable[PlainRecord], source: RecordSource
    ) -> None:
        """Adds records of which the batch is not known."""
        for plain in records:
            raw = BatchRecord._make(plain)
            self._add(partition, entry_of(PLAIN_HEADER, raw, SHARE_STATE_LOG))

    def add_corrupt(self, partition: int, offset: int, timestamp_ms: int, error: str) -> None:
        """Adds a row for a batch that cannot be taken apart."""
        raw = BatchRecord(offset, timestamp_ms, None, None)
        self._add(partition, LogEntry(PLAIN_HEADER, raw, CORRUPT_BATCH, error=error))

    def _add(self, partition: int, entry: LogEntry) -> None:
        raw, wanted, error = entry.raw, self._wanted, entry.error
        try:
            time_us = micros(raw.timestamp_ms)
        except OutOfRange as out:
            time_us, error = None, error or str(out)
        if not (
            wanted.offset(raw.offset)
            and wanted.time(time_us)
            and wanted.type(entry.kind)
            and wanted.group(entry.group)
        ):
            return
        row: dict[str, Any] = {
            "log_partition": partition,
            "log_offset": raw.offset,
            "timestamp": time_us,
            "record_type": entry.kind,
            "record_type_id": entry.number,
            "group": entry.group,
            "key": raw.key,
            "value": raw.value,
        }
        if entry.kind != CORRUPT_BATCH:
            row["tombstone"] = raw.value is None
        if entry.state is not None:
            key, value = entry.state
            row |= {"topic_id": topic_id_text(key.topic_id), "partition": key.partition}
            try:
                row |= _value(value)
            except OutOfRange as out:
                error = str(out)
        elif error is None and entry.kind != MARKER:
            error = f"unknown record type {entry.number}"
        row["error"] = error
        self._rows.append(row)

    def take(self) -> pa.RecordBatch:
        """Returns the collected rows and forgets them."""
        rows, self._rows = self._rows, []
        return pa.RecordBatch.from_pylist(rows, schema=self.schema)


def _value(value: ShareSnapshot | ShareUpdate | None) -> dict[str, Any]:
    """The columns that the value of a record fills. Raises OutOfRange."""
    if value is None:
        return {}
    for batch in value.batches:
        first, last = batch.first_offset, batch.last_offset
        if first < 0 or not first <= last < first + RANGE_MAX:
            raise OutOfRange(f"{first} to {last} is no range of offsets")
    known = {name: found for name, found in struct_of(value).items() if found != _UNKNOWN}
    return {"value_version": 0} | known
