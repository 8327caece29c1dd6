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
    from storage.sqlite import sqlite_store

    return sqlite_store(sqlite_path(url, data_dir))


def create_reader(url: str | None, data_dir: str | Path) -> StoreReader:
    """The same store for reading only, beside whoever writes it; not started. Raises
    StoreRefused."""
    if url == "memory://":
        raise StoreRefused("memory:// holds nothing that another process could read")
    from storage.reader import StoreReader
    from storage.sqlite import SqliteReadBackend

    return StoreReader(SqliteReadBackend(sqlite_path(url, data_dir)))


def sqlite_path(url: str | None, data_dir: str | Path) -> Path:
    """The database file that a URL means. Raises StoreRefused."""
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
