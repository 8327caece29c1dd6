"""Reading batches out of a log's rows.

A row holds one batch as it was appended. Where the cleaner has been, a row stands for a range of
offsets and holds what is left of their batches, which may be none.
"""

from __future__ import annotations

from collections.abc import Iterable

from groupd.coordinator.topics.tail_cache import within
from groupd.protocol.records.batch import iter_batches, parse_header
from groupd.storage.log import PartitionLogs, StoredBatch


async def read_batches(
    logs: PartitionLogs, name: str, from_offset: int, end: int, max_bytes: int, *, min_one: bool
) -> list[bytes] | None:
    """Whole batches, one a payload, that end at `from_offset` or later and below `end`, up to
    `max_bytes`; with `min_one` the first one even if larger. An empty list: nothing is left before
    `end`, or nothing fits. None: the log has no row there. Raises LogError."""
    at = from_offset
    while at < end:
        rows = await logs.read(name, at, max_bytes)
        if not rows:
            return None
        payloads = [
            payload
            for row in rows
            if row.last_offset < end
            for payload in _batches(row, from_offset)
        ]
        if payloads:
            return within(payloads, max_bytes, min_one)
        at = rows[-1].last_offset + 1
    return []


def _batches(row: StoredBatch, from_offset: int) -> Iterable[bytes]:
    payload = row.payload
    if payload and parse_header(payload).size == len(payload):
        return [payload] if parse_header(payload).last_offset >= from_offset else []
    return [
        batch.payload for batch in iter_batches(payload) if batch.header.last_offset >= from_offset
    ]
