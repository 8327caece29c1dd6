"""Cuts what comes from a socket into the records of TLS (RFC 8446, section 5.1)."""

from __future__ import annotations

RECORD_MAX = 16384
"""Bytes of data in one record."""

HEADER = 5
_OVERHEAD_MAX = 2048
"""Bytes that encryption may add to a record; TLS 1.2 allows that many."""
_TYPES = frozenset(range(20, 25))


class Records:
    """The records of one connection, which takes one at a time: so bytes cost nothing before it is
    their turn, however many records they are. What cannot be a record is passed on at once, for
    OpenSSL to refuse. `rest`: what has come and may not be taken yet; empty once all of it is."""

    __slots__ = ("_at", "rest")

    def __init__(self) -> None:
        self.rest = b""
        self._at = 0
        """How many bytes of `rest` are taken."""

    def feed(self, data: bytes) -> None:
        """Keeps what has come."""
        self.rest = self.rest[self._at :] + data if self.rest else data
        self._at = 0

    @property
    def several(self) -> bool:
        """Whether more has come than the next record."""
        return 0 < self._size() < len(self.rest) - self._at

    def next(self) -> bytes | None:
        """The next record, with its header; None until it is there as a whole."""
        size = self._size()
        if not size:
            return None
        at, end = self._at, self._at + size
        record = self.rest[at:end]
        if end == len(self.rest):
            self.rest, self._at = b"", 0
        else:
            self._at = end
        return record

    def _size(self) -> int:
        """The bytes of the next record; 0 until it is there as a whole."""
        data, at = self.rest, self._at
        left = len(data) - at
        if left < HEADER:
            return 0
        size = HEADER + (data[at + 3] << 8 | data[at + 4])
        if data[at] not in _TYPES or size > HEADER + RECORD_MAX + _OVERHEAD_MAX:
            return left
        return size if size <= left else 0
