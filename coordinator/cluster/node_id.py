"""The id of a node, kept in its data directory, which one process uses at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from groupd.storage.log import StoreRefused

FILE = "node-id"
_LENGTH_MAX = 32


class NodeIdFile:
    """The file, locked as long as this object is open. Raises StoreRefused when another process has
    it, when the directory cannot be used, or when the file does not hold a number."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreRefused(
                f"{directory}: cannot be used ({error.strerror}): mend it or choose another "
                "--data-dir"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.node_id = self._read()
            """The id; None if there is none yet."""
        except BlockingIOError:
            self.close()
            raise StoreRefused(
                f"{directory}: in use by another node: give this one its own --data-dir"
            ) from None
        except BaseException:
            self.close()
            raise

    def _read(self) -> int | None:
        text = os.read(self._file, _LENGTH_MAX).decode(errors="replace").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()) or int(text) >= 2**31:
            raise StoreRefused(f"{self._path}: holds no node id: remove it, the node draws another")
        return int(text)

    def keep(self, node_id: int) -> None:
        """Write the id durably. Raises OSError."""
        self.node_id = node_id
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{node_id}\n".encode(), 0)
        os.fsync(self._file)

    def close(self) -> None:
        """Let another process have it. A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
