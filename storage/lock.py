"""The lock beside a database file: two daemons must never share one.

`flock` on a file of its own, because SQLite's locks come and go with its transactions. The
kernel lets go when the process ends, however it ends. The file holds the owner's process id for
the message of whoever comes second; it stays behind, as removing it would be a race.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from groupd.storage.log import StoreRefused


class DataLock:
    """Held from `acquire` to `release`."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(database.name + ".lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Makes the directory if need be. Raises StoreRefused."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
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
        # On a full disk the lock holds all the same, and nobody is told who has it.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def holder(database: Path) -> int | None:
    """The process that holds the lock beside `database`, without touching it; None when nobody
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
