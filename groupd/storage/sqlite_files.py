"""The files beside a SQLite database: its lock, and the note of the last acknowledged append.

**The lock.** Two daemons must never share a database. It is `flock` on a file of its own, because
SQLite's locks come and go with its transactions. The kernel lets go when the process ends, however
it ends. The file holds the owner's process id, for the message that a second daemon prints; it
stays behind, as removing it would be a race.

**The note.** SQLite recovers a write-ahead log up to its first damaged frame and silently drops
what follows; a log that is cut short or missing altogether is no error to it either. What is left
is an older state, consistent in itself. So every acknowledged append is noted in a small file of
its own, and a database that does not know of it is refused at start. The note is a store into
mapped memory, made after the commit is durable and never synced. It outlives `kill -9` with the
page cache. After a power failure it may be older than the database, never newer, so it may miss a
loss but raises no false alarm. One note is enough for all logs: SQLite keeps or drops transactions
in their order.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from struct import Struct

from groupd.storage.log import StoreRefused
from groupd.storage.private_files import make_private_directory, private

FULL = "the disk is full"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PROBE_BYTES = 64 * 1024


def is_full(directory: Path) -> bool:
    """Whether the disk is full, for a database that only says that something failed: tries to write
    a little."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.errno in NO_SPACE
    return False


# The lock ---------------------------------------------------------------------------------------


class DataLock:
    """Held from `acquire` to `release`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(database.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Makes the directory if need be. Raises StoreRefused."""
        try:
            make_private_directory(self._path.parent)
            descriptor = private(self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StoreRefused(
                f"{self._path.parent}: cannot be written ({error.strerror}): mend its permissions "
                "or choose another data directory"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreRefused(
                    f"{self._path}: cannot be locked ({error.strerror}): choose a data directory "
                    "on a local disk"
                ) from error
            raise StoreRefused(
                f"{self._database}: in use by another groupd (process {owner}): stop it or "
                "choose another data directory"
            ) from None
        self._descriptor = descriptor
        # On a full disk the lock holds, but its file does not say who has it.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder(database: Path) -> int | None:
    """The process that holds the lock beside `database`, without touching it; None when no process
    does, and where the system does not tell (it has no /proc/locks)."""
    try:
        inode = database.with_name(database.name + ".lock").stat().st_ino
        table = Path("/proc/locks").read_text()
    except OSError:
        return None
    for line in table.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    return None


# The note ---------------------------------------------------------------------------------------

_NOTE = Struct(">qq")
_CRC = Struct(">I")
_SLOT_BYTES = _NOTE.size + _CRC.size
_SLOTS = 2
"""Written alternately: a process that is killed while it writes one leaves the other."""


class Witness:
    """`note` after each append; `notes` at the next start. Closed, it notes nothing."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".acknowledged")
        self._memory: mmap.mmap | None = None
        self._slot = 0

    def open(self) -> None:
        """Raises OSError."""
        descriptor = private(self.path, os.O_RDWR | os.O_CREAT)
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
