"""Cuts what comes from a socket into the records of TLS (RFC 8446, section 5.1)."""

from __future__ import annotations

RECORD_MAX = 16384
"""Bytes of data in one record."""

HEADER = 5
_OVERHEAD_MAX = 2048
"""Bytes that encryption may add to a record; TLS 1.2 allows that many."""
_TYPES = frozenset(range(20, 25))


class Records:
    """The records of one connection. It keeps at most one record, of which a part has not come yet.
    What cannot be a record is passed on at once, for OpenSSL to refuse."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def whole(self, data: bytes) -> list[bytes]:
        """The records that are there as a whole now, each with its header."""
        if self._rest:
            data = self._rest + data
        found = []
        at, end = 0, len(data)
        while end - at >= HEADER:
            size = HEADER + (data[at + 3] << 8 | data[at + 4])
            if data[at] not in _TYPES or size > HEADER + RECORD_MAX + _OVERHEAD_MAX:
                found.append(data[at:])
                at = end
                break
            if size > end - at:
                break
            found.append(data[at : at + size])
            at += size
        self._rest = data[at:]
        return found
