"""Finds records of a partition by their time, for ListOffsets."""

from __future__ import annotations

from typing import Protocol

from groupd.coordinator.core.slices import Steps
from groupd.coordinator.runtime.unpacking import Unpacking
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    CorruptBatch,
    iter_batches,
    parse_header,
    read_records,
)
from groupd.protocol.records.compression import Plain, UnpacksTooLarge, UnsupportedCodec
from groupd.storage.log import LogCorrupt, StoredBatch

_SCAN_BYTES = 1 << 20
_TURN_BATCHES = 250
_TURN_RECORDS = 2000
"""Batches, or records, that are looked at between two turns for others: about a millisecond."""

Found = tuple[int, int]
"""(timestamp ms, offset)"""


class SearchedLog(Protocol):
    """What a search needs of a log."""

    @property
    def start_offset(self) -> int: ...
    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]: ...
    async def first_at_or_after(self, timestamp_ms: int) -> StoredBatch | None: ...
    async def with_max_timestamp(self) -> StoredBatch | None: ...


class TimeSearch:
    """`unpacked_max_bytes`: batches that unpack to more are not looked into."""

    def __init__(self, unpacking: Unpacking, unpacked_max_bytes: int) -> None:
        self._unpacking = unpacking
        self._unpacked_max_bytes = unpacked_max_bytes

    async def latest(self, log: SearchedLog) -> Found | None:
        """The first record with the largest timestamp. Raises LogError."""
        batch = await log.with_max_timestamp()
        if batch is None or batch.max_timestamp_ms < 0:
            return None
        return await self._in_row(batch.payload, batch.max_timestamp_ms, log.start_offset)

    async def at_or_after(
        self, log: SearchedLog, timestamp_ms: int, end_offset: int
    ) -> Found | None:
        """The first record at or after a time, below `end_offset`. Raises LogError."""
        batch = await log.first_at_or_after(timestamp_ms)
        if batch is None:
            return None
        found = await self._in_row(batch.payload, timestamp_ms, log.start_offset)
        offset = batch.last_offset + 1
        # When DeleteRecords has cut the batch in two, or the cleaner was there, the matching record
        # can be gone.
        while found is None and offset < end_offset:
            payloads = await log.read(offset, _SCAN_BYTES, min_one=True)
            if not payloads:
                return None
            for payload in payloads:
                if found is None:
                    found = await self._in_row(payload, timestamp_ms, log.start_offset)
            offset = parse_header(payloads[-1]).next_offset
        return found

    async def _in_row(self, payload: bytes, timestamp_ms: int, start_offset: int) -> Found | None:
        """The first record in the batches of one row that is not before this time and this
        offset."""
        try:
            candidates = await self._unpacking.work.run(_candidates(payload, timestamp_ms))
        except CorruptBatch as error:
            raise LogCorrupt(str(error)) from error
        for header, batch in candidates:

            def steps(records: Plain, header: BatchHeader = header) -> Steps[Found | None]:
                return _first(header, records, timestamp_ms, start_offset)

            try:
                limit = self._unpacked_max_bytes
                found = await self._unpacking.run(header, batch, limit, steps)
            except (UnsupportedCodec, UnpacksTooLarge):
                return header.max_timestamp_ms, max(header.base_offset, start_offset)
            except CorruptBatch as error:
                raise LogCorrupt(str(error)) from error
            if found is not None:
                return found
        return None


def _candidates(payload: bytes, timestamp_ms: int) -> Steps[list[Batch]]:
    """The batches of a row that may hold a record of this time or later. Raises CorruptBatch."""
    found = []
    for count, batch in enumerate(iter_batches(payload), 1):
        if batch.header.max_timestamp_ms >= timestamp_ms:
            found.append(batch)
        if count % _TURN_BATCHES == 0:
            yield
    return found


def _first(
    header: BatchHeader, records: Plain, timestamp_ms: int, start_offset: int
) -> Steps[Found | None]:
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    append_ms = header.max_timestamp_ms if header.is_log_append_time else None
    for count, (delta, time_delta_ms, *_) in enumerate(read_records(header, records), 1):
        time_ms = base_ms + time_delta_ms if append_ms is None else append_ms
        if time_ms >= timestamp_ms and base_offset + delta >= start_offset:
            return time_ms, base_offset + delta
        if count % _TURN_RECORDS == 0:
            yield
    return None
