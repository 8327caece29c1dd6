"""The findings of `groupd log verify`, and the checks of one batch."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from groupd.protocol.records.batch import (
    DELETE_HORIZON,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    check,
    decode_marker,
)


class Finding(Struct, frozen=True):
    """One finding. `log`: the log's name, or "store". `offset`: None when the finding is about the
    whole log."""

    log: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        place = self.log if self.offset is None else f"{self.log}@{self.offset}"
        return f"{place}: {self.reason}"


class Counts(Struct):
    """How much was checked."""

    logs: int = 0
    batches: int = 0
    records: int = 0
    groups: int = 0
    offsets: int = 0
    open_transactions: int = 0


def whole_batch(payload: bytes) -> BatchHeader | str:
    """The header of a batch that is whole and has the right checksum, or the reason why it is
    not."""
    try:
        return check(payload)
    except CorruptBatch as error:
        return str(error)


def record_problems(header: BatchHeader, records: list[BatchRecord]) -> Iterator[tuple[int, str]]:
    """(offset, reason) for everything that contradicts the header. Gaps between offsets are
    allowed: compaction leaves them."""
    last = header.base_offset - 1
    for record in records:
        if record.offset <= last:
            yield record.offset, f"the record stands behind offset {last}"
        elif record.offset > header.last_offset:
            yield (
                record.offset,
                f"the record lies beyond its batch, which ends at {header.last_offset}",
            )
        last = max(last, record.offset)
        if record.timestamp_ms > header.max_timestamp_ms:
            yield (
                record.offset,
                f"timestamp {record.timestamp_ms} is above the batch's {header.max_timestamp_ms}",
            )
        elif record.timestamp_ms < -1:
            yield record.offset, f"timestamp {record.timestamp_ms} is no time"
        if header.is_control:
            try:
                decode_marker(record)
            except CorruptBatch as error:
                yield record.offset, str(error)
    compacted = len(records) < header.last_offset_delta + 1
    newest_ms = max((record.timestamp_ms for record in records), default=header.max_timestamp_ms)
    if (
        not compacted
        and not header.attributes & DELETE_HORIZON
        and newest_ms < header.max_timestamp_ms
    ):
        yield (
            header.base_offset,
            f"the batch's largest timestamp is {header.max_timestamp_ms}, its records' {newest_ms}",
        )
    if header.is_control and not header.is_transactional:
        yield header.base_offset, "a control batch outside of a transaction"
