"""Which store a URL means. SQLAlchemy is loaded only for stores that need it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from storage.log import Store, StoreRefused
from storage.memory import MemoryStore

if TYPE_CHECKING:
    from storage.reader import StoreReader

DATABASE_FILE = "groupd.sqlite"

_SQLITE_PREFIXES = ("sqlite+aiosqlite:///", "sqlite:///")


def create_store(url: str | None, data_dir: str | Path) -> Store:
    """The store, not started. `url`: `memory://`, `sqlite+aiosqlite:///path` (a fourth slash
    for an absolute path) or None for `<data_dir>/groupd.sqlite`. Raises StoreRefused."""
    if url == "memory://":
        return MemoryStore()
    return _sqlite(_sqlite_path(url, data_dir))


def create_reader(url: str | None, data_dir: str | Path) -> StoreReader:
    """Read a store beside its owner, or without one: `url` and `data_dir` as in `create_store`,
    the reader not started. Raises StoreRefused."""
    if url == "memory://":
        raise StoreRefused("memory:// is gone with its daemon: name a store on disk")
    from storage.reader import sqlite_reader

    return sqlite_reader(_sqlite_path(url, data_dir))


def _sqlite_path(url: str | None, data_dir: str | Path) -> Path:
    if not url:
        return Path(data_dir) / DATABASE_FILE
    for prefix in _SQLITE_PREFIXES:
        path = url.removeprefix(prefix)
        if path != url and path and ":memory:" not in path and "?" not in path:
            return Path(path)
    # Only the scheme: what follows may hold a password.
    raise StoreRefused(
        f"unknown store {url.partition(':')[0]}: use memory:// or sqlite+aiosqlite:///path/to/file"
    )


def _sqlite(path: Path) -> Store:
    from storage.sqlite import sqlite_store

    return sqlite_store(path)
