"""Which store a URL means. SQLAlchemy is loaded only for stores that need it."""

from __future__ import annotations

from pathlib import Path

from storage.log import Store, StoreRefused
from storage.memory import MemoryStore

DATABASE_FILE = "groupd.sqlite"

_SQLITE_PREFIXES = ("sqlite+aiosqlite:///", "sqlite:///")
_POSTGRES_PREFIXES = ("postgresql+asyncpg://", "postgresql://")


def create_store(url: str | None, data_dir: str | Path) -> Store:
    """The store, not started. Raises StoreRefused.

    `url`: `memory://`, `sqlite+aiosqlite:///path` (a fourth slash for an absolute path),
    `postgresql+asyncpg://...` (see `postgres_url`), or None for `<data_dir>/groupd.sqlite`."""
    if url == "memory://":
        return MemoryStore()
    if not url:
        return _sqlite(Path(data_dir) / DATABASE_FILE)
    for prefix in _SQLITE_PREFIXES:
        path = url.removeprefix(prefix)
        if path != url and path and ":memory:" not in path and "?" not in path:
            return _sqlite(Path(path))
    if url.startswith(_POSTGRES_PREFIXES):
        return _postgres(url)
    # Only the scheme: what follows may hold a password.
    raise StoreRefused(
        f"unknown store {url.partition(':')[0]}: use memory://, sqlite+aiosqlite:///path/to/file "
        "or postgresql+asyncpg://user:password@host/database"
    )


def _postgres(url: str) -> Store:
    try:
        from storage.postgres import postgres_store
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise StoreRefused(
            "PostgreSQL as a store needs its driver: pip install 'groupd[postgres]'"
        ) from missing
    return postgres_store(url)


def _sqlite(path: Path) -> Store:
    from storage.sqlite import sqlite_store

    return sqlite_store(path)
