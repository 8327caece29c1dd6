"""The id of a node, kept in its data directory.

One process uses the file at a time. Further nodes that are started with the same directory use
files of their own beside it. A file has two lines: the id, and the id of the cluster in which it
was drawn. In another cluster the node draws another id.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from groupd.storage.log import StoreRefused

FILE = "node-id"
NODES_MAX = 64
"""How many nodes may share one directory."""
_LENGTH_MAX = 128


class CannotJoin(Exception):
    """This process cannot be a node of the cluster: another process has its id, or the cluster has
    a newer level than this version can work at. `str()` is one line."""


class NodeIdFile:
    """The first file of the directory that no other process uses, locked as long as this object is
    open. Raises StoreRefused if there are too many processes, the directory cannot be used, or the
    file does not hold a number."""

    def __init__(self, directory: Path) -> None:
        self.node_id: int | None = None
        """The id; None if there is none yet."""
        self.cluster_id = ""
        """The cluster in which the id was drawn."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._path, self._file = _lock_one(directory)
        except OSError as error:
            raise StoreRefused(
                f"{directory}: cannot be used ({error.strerror}): mend it or choose another "
                "--data-dir"
            ) from None
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        text = os.read(self._file, _LENGTH_MAX).decode(errors="replace")
        if not text.strip():
            return
        number, _, cluster_id = text.strip().partition("\n")
        if not (number.isascii() and number.isdecimal()) or int(number) >= 2**31:
            raise StoreRefused(f"{self._path}: holds no node id: remove it, the node draws another")
        self.node_id, self.cluster_id = int(number), cluster_id.strip()

    def keep(self, node_id: int, cluster_id: str) -> None:
        """Write the id durably. Raises OSError."""
        self.node_id, self.cluster_id = node_id, cluster_id
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{node_id}\n{cluster_id}\n".encode(), 0)
        os.fsync(self._file)

    def close(self) -> None:
        """Release the lock, so that another process may use the id. A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _lock_one(directory: Path) -> tuple[Path, int]:
    """Returns the path and the descriptor of the first file that was not locked, and locks it.
    Raises OSError, StoreRefused."""
    for number in range(1, NODES_MAX + 1):
        path = directory / (FILE if number == 1 else f"{FILE}-{number}")
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
        else:
            return path, file
    raise StoreRefused(
        f"{directory}: in use by {NODES_MAX} nodes: give this one its own --data-dir"
    )
