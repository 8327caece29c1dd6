"""What a reader makes of the records of a Fetch."""

from __future__ import annotations

from collections.abc import Iterator

from groupd.protocol.records.batch import HEADER_BYTES, Batch, iter_batches, parse_header


def whole_batches(records: bytes | memoryview) -> Iterator[Batch]:
    """All batches, except the last one if a limit has cut it."""
    data, end = bytes(records), 0
    while len(data) - end >= HEADER_BYTES and parse_header(data, end).size <= len(data) - end:
        end += parse_header(data, end).size
    return iter_batches(data[:end])
