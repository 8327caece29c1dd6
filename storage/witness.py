"""The last acknowledged append, noted beside a SQLite database.

SQLite recovers a write-ahead log up to its first damaged frame and silently drops what follows; a
log that is cut short or missing altogether is no error to it either. What is left is an older
state, consistent in itself. So every acknowledged append is noted in a small file of its own, and a
database that does not know of it is refused at start.

The note is a store into mapped memory, made after the commit is durable and never synced. It
outlives `kill -9` with the page cache. After a power failure it may be older than the database,
never newer, so it may miss a loss but raises no false alarm. One note is enough for all logs:
SQLite keeps or drops transactions in their order.
"""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path
from struct import Struct

_NOTE = Struct(">qq")
_CRC = Struct(">I")
_SLOT_BYTES = _NOTE.size + _CRC.size
_SLOTS = 2
"""In turns: a process that is killed while it writes one leaves the other."""


class Witness:
    """`note` after each append; `notes` at the next start. Closed, it notes nothing."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".acknowledged")
        self._memory: mmap.mmap | None = None
        self._slot = 0

    def open(self) -> None:
        """Raises OSError."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            size = _SLOTS * _SLOT_BYTES
            missing = size - os.fstat(descriptor).st_size
            if missing > 0:
                # Written, not only sized: a full disk is to show now and not at a store to memory.
                os.pwrite(descriptor, bytes(missing), size - missing)
            self._memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)

    def notes(self) -> list[tuple[int, int]]:
        """(log id, log end) of the last appends that were acknowledged, the largest end first;
        none if unknown."""
        found = []
        for slot in range(_SLOTS):
            data = self._memory[slot * _SLOT_BYTES :][:_SLOT_BYTES] if self._memory else b""
            note = data[: _NOTE.size]
            if data and any(note) and _CRC.unpack(data[_NOTE.size :])[0] == zlib.crc32(note):
                log_id, next_offset = _NOTE.unpack(note)
                found.append((log_id, next_offset))
        return sorted(found, key=lambda note: -note[1])

    def note(self, log_id: int, next_offset: int) -> None:
        note = _NOTE.pack(log_id, next_offset)
        self._write(note + _CRC.pack(zlib.crc32(note)))

    def forget(self) -> None:
        for _ in range(_SLOTS):
            self._write(bytes(_SLOT_BYTES))

    def _write(self, slot: bytes) -> None:
        if self._memory is not None:
            self._slot = (self._slot + 1) % _SLOTS
            start = self._slot * _SLOT_BYTES
            self._memory[start : start + _SLOT_BYTES] = slot

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
