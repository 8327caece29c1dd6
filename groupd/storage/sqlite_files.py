"""The files beside a SQLite database: its lock, and the note of the last acknowledged append.

**The lock.** Two daemons must never share a database. The lock is `flock` on a file of its own,
because SQLite's locks come and go with its transactions. The kernel releases it when the process
ends, however it ends. The file contains the owner's process id, for the message that a second
daemon prints. It is never removed, because that would be a race.

**The note.** SQLite recovers a write-ahead log up to its first damaged frame and silently drops the
rest. It does not notice either that the log was cut or is missing altogether. The result is an
older state that is consistent in itself. So every acknowledged append is noted in a small file of
its own, and a database that lacks this append is refused at start. The note is written to mapped
memory after the commit is durable, and never synced. It survives `kill -9`, as the page cache does.
After a power failure it may be older than the database, never newer, so it may miss a loss but
raises no false alarm. One note is enough for all logs, because SQLite keeps or drops transactions
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
    """Whether the disk is full, for an I/O error of SQLite that does not say why. Tries to
    write."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(_PROBE_BYTES))
    except OSError as error:
        return error.errno in NO_SPACE
    return False


# The lock ---------------------------------------------------------------------------------------


class DataLock:
    """The lock on a database, held from `acquire` to `release`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(database.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Takes the lock; makes the directory if it is missing. Raises StoreRefused."""
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
        # On a full disk the lock is held, but the file does not say by whom.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder(database: Path) -> int | None:
    """Returns the id of the process that holds the lock beside `database`, without touching the
    lock. None if no process holds it, or if the system does not tell (it has no /proc/locks)."""
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
"""The slots are written in turn. If a process is killed while it writes one, the other is valid."""


class AcknowledgedEnds:
    """The note of acknowledged appends: `note` is called after each append, `notes` at the next
    start. After `close` nothing is noted."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".acknowledged")
        self._memory: mmap.mmap | None = None
        self._slot = 0

    def open(self) -> None:
        """Opens the note's file, and makes it if it is missing. Raises OSError."""
        descriptor = private(self.path, os.O_RDWR | os.O_CREAT)
        try:
            size = _SLOTS * _SLOT_BYTES
            missing = size - os.fstat(descriptor).st_size
            if missing > 0:
                # The bytes are written, because to set the size would not notice a full disk; a
                # later store to memory would crash.
                os.pwrite(descriptor, bytes(missing), size - missing)
            self._memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)

    def notes(self) -> list[tuple[int, int]]:
        """Returns (log id, log end) of the last acknowledged appends, the largest end first. Empty
        if they are not known."""
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
