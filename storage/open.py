"""Which store a URL means. SQLAlchemy is loaded only for stores that need it."""

from __future__ import annotations

from pathlib import Path

from storage.log import Store, StoreRefused
from storage.memory import MemoryStore

DATABASE_FILE = "groupd.sqlite"

_SQLITE_PREFIXES = ("sqlite+aiosqlite:///", "sqlite:///")


def create_store(url: str | None, data_dir: str | Path) -> Store:
    """The store, not started. `url`: `memory://`, `sqlite+aiosqlite:///path` (a fourth slash
    for an absolute path) or None for `<data_dir>/groupd.sqlite`. Raises StoreRefused."""
    if url == "memory://":
        return MemoryStore()
    if not url:
        return _sqlite(Path(data_dir) / DATABASE_FILE)
    for prefix in _SQLITE_PREFIXES:
        path = url.removeprefix(prefix)
        if path != url and path and ":memory:" not in path and "?" not in path:
            return _sqlite(Path(path))
    # Only the scheme: what follows may hold a password.
    raise StoreRefused(
        f"unknown store {url.partition(':')[0]}: use memory:// or sqlite+aiosqlite:///path/to/file"
    )


def _sqlite(path: Path) -> Store:
    from storage.sqlite import sqlite_store

    return sqlite_store(path)
