"""Collects what is left of neighbouring rows until it is worth one transaction."""

from __future__ import annotations

from groupd.storage.log import StoredBatch

ROW_BYTES = 128 * 1024
"""A clean row is about so large: few rows to load, each read and checked in a millisecond."""

ROWS_MAX = 400
SOURCE_BYTES_MAX = 512 * 1024
"""Limits of what one transaction swaps: appends wait for it."""


class Swap:
    """Rows from `first` on that become one row."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.end = first
        self._parts: list[bytes] = []
        self._rows = 0
        self._source_bytes = 0
        self._size = 0
        self._max_timestamp_ms = -1
        self._changed = False

    def fits_as_it_is(self, row: StoredBatch, changed: bool) -> bool:
        """Whether `row` may stay as it is, because nothing is gained by writing it again."""
        return not changed and not self.useful and len(row.payload) >= ROW_BYTES // 2

    def add(self, row: StoredBatch, left: bytes, max_timestamp_ms: int, changed: bool) -> None:
        """Add a row. `left`: the batches that stay; `max_timestamp_ms`: theirs, -1 if there are
        none."""
        self.end = row.last_offset + 1
        self._rows += 1
        self._source_bytes += len(row.payload)
        self._parts.append(left)
        self._size += len(left)
        self._max_timestamp_ms = max(self._max_timestamp_ms, max_timestamp_ms)
        self._changed |= changed

    @property
    def full(self) -> bool:
        return (
            self._size >= ROW_BYTES
            or self._rows >= ROWS_MAX
            or self._source_bytes >= SOURCE_BYTES_MAX
        )

    @property
    def useful(self) -> bool:
        """Whether there is anything to write: a change, or small rows that become one."""
        return self._changed or self._rows > 1

    def row(self) -> StoredBatch:
        payload = b"".join(self._parts)
        return StoredBatch(self.first, self.end - 1, self._max_timestamp_ms, payload)
