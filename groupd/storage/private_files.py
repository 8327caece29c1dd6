"""Files and directories that only their owner may read, whatever the umask is. They hold the
records, offsets and client ids of other people. Files that exist already keep their permissions,
because an operator may share them on purpose."""

from __future__ import annotations

import os
from pathlib import Path

_FILE, _DIRECTORY = 0o600, 0o700
_OTHERS = 0o007


def private(path: str | Path, flags: int) -> int:
    """`os.open` for a file that may not exist yet. Raises OSError."""
    return os.open(path, flags, _FILE)


def make_private_directory(path: Path) -> None:
    """Makes a directory. Missing parents are made with the usual permissions. Raises OSError."""
    path.mkdir(_DIRECTORY, parents=True, exist_ok=True)


def others_may_read(path: Path) -> bool:
    """Whether every user of the machine may read or change this file. Raises OSError."""
    return bool(path.stat().st_mode & _OTHERS)


def open_to_others(database: Path) -> list[str]:
    """Returns those of the database and the files beside it that every user of the machine may read
    or change. Empty if other users have no access to the directory."""
    try:
        if not database.parent.stat().st_mode & _OTHERS:
            return []
        beside = sorted(database.parent.glob(f"{database.name}*"))
        return [str(path) for path in beside if path.stat().st_mode & _OTHERS]
    except OSError:
        return []
