"""Decodes records of `__share_group_state` into rows of `schema.SHARE_ENTRIES`, as `decode` does
for those of `__consumer_offsets`: no record is lost, and damage does not end the reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from groupd.coordinator.logtools.entries import MARKER, LogEntry, entry_of
from groupd.coordinator.logtools.logs import SHARE_STATE_LOG
from groupd.pipeline.decode import CORRUPT_BATCH, PLAIN_HEADER, PlainRecord, RecordSource
from groupd.pipeline.row_filter import EVERYTHING, RowFilter
from groupd.pipeline.schema import SHARE_ENTRIES
from groupd.pipeline.values import OutOfRange, micros, topic_id_text
from groupd.protocol.messages.share_state import ShareStateBatch
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    check,
    iter_records,
)
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.protocol.records.share_state_records import ShareSnapshot, ShareUpdate

RANGE_MAX = 2**31
"""No range of a share-partition has more offsets than this."""

SHARE_COLUMNS = tuple(SHARE_ENTRIES.fieldNames())
_UNKNOWN = -1


@cache
def _arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    return to_arrow_schema(StructType([SHARE_ENTRIES[name] for name in columns]), timezone="UTC")


class ShareEntryRows:
    """Takes records and gives Arrow batches; see `decode.EntryRows`."""

    def __init__(
        self, columns: Sequence[str] = SHARE_COLUMNS, wanted: RowFilter = EVERYTHING
    ) -> None:
        self.schema = _arrow_schema(tuple(columns))
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
            records = list(iter_records(Batch(header, payload)))
        except (CorruptBatch, UnsupportedCodec) as error:
            self.add_corrupt(partition, header.base_offset, header.max_timestamp_ms, str(error))
            return
        for raw in records:
            if header.is_control:
                self._add(partition, LogEntry(header, raw, MARKER))
            else:
                self._add(partition, entry_of(header, raw, SHARE_STATE_LOG))

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
        arrays = [
            pa.array([row.get(field.name) for row in self._rows], field.type)
            for field in self.schema
        ]
        self._rows.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _value(value: ShareSnapshot | ShareUpdate | None) -> dict[str, Any]:
    """The columns that the value of a record fills. Raises OutOfRange."""
    if value is None:
        return {}
    columns: dict[str, Any] = {
        "value_version": 0,
        "snapshot_epoch": value.snapshot_epoch,
        "batches": [_range(batch) for batch in value.batches],
    }
    for name in ("leader_epoch", "start_offset", "delivery_complete_count"):
        found = getattr(value, name)
        columns[name] = None if found == _UNKNOWN else found
    if isinstance(value, ShareSnapshot):
        columns["state_epoch"] = value.state_epoch
        columns["create_time"] = micros(value.create_timestamp_ms)
        columns["write_time"] = micros(value.write_timestamp_ms)
    return columns


def _range(batch: ShareStateBatch) -> dict[str, int]:
    first, last = batch.first_offset, batch.last_offset
    if first < 0 or not first <= last < first + RANGE_MAX:
        raise OutOfRange(f"{first} to {last} is no range of offsets")
    return {
        "first_offset": first,
        "last_offset": last,
        "delivery_state": batch.delivery_state,
        "delivery_count": batch.delivery_count,
    }
