"""Finds the store that a URL means. SQLAlchemy is loaded only for stores that need it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from groupd.storage.log import Store, StoreRefused

if TYPE_CHECKING:
    from groupd.storage.reader import StoreReader

DATABASE_FILE = "groupd.sqlite"

_SQLITE_PREFIXES = ("sqlite+aiosqlite:///", "sqlite:///")
_POSTGRES_PREFIXES = ("postgresql+asyncpg://", "postgresql://")


def create_store(url: str | None, data_dir: str | Path, *, shared: bool = False) -> Store:
    """Returns the store, not started. Raises StoreRefused.

    `shared`: several nodes use it at the same time, see `storage.postgres_cluster`; only PostgreSQL
    supports that. `url`: `memory://`, `sqlite:///path` (a fourth slash for an absolute path),
    `postgresql+asyncpg://...` (see `postgres_url`), or None for `<data_dir>/groupd.sqlite`.
    `sqlite+aiosqlite://` means the same as `sqlite://`.
    """
    if url == "memory://":
        from groupd.storage.memory import MemoryStore

        return MemoryStore()
    if _is_postgres(url):
        if shared:
            from groupd.storage.postgres_cluster import cluster_store

            return cluster_store(url)
        from groupd.storage.postgres import postgres_store

        return postgres_store(url)
    if shared:
        raise StoreRefused("--cluster: needs --store postgresql+asyncpg://..., which nodes share")
    from groupd.storage.sqlite import sqlite_store

    return sqlite_store(sqlite_path(url, data_dir))


def create_reader(url: str | None, data_dir: str | Path) -> StoreReader:
    """The same store for reading only, while a daemon may write it; not started. Raises
    StoreRefused."""
    if url == "memory://":
        raise StoreRefused("memory:// holds nothing that another process could read")
    from groupd.storage.reader import StoreReader

    if _is_postgres(url):
        from groupd.storage.postgres import postgres_reader

        return StoreReader(postgres_reader(url))
    from groupd.storage.sqlite import sqlite_reader

    return StoreReader(sqlite_reader(sqlite_path(url, data_dir)))


def database_file(url: str | None, data_dir: str | Path) -> Path | None:
    """Returns the file of an embedded store, whether it exists or not; None if a server has the
    database. Raises StoreRefused."""
    return None if _is_postgres(url) else sqlite_path(url, data_dir)


def sqlite_path(url: str | None, data_dir: str | Path) -> Path:
    """Returns the database file that a URL means. Raises StoreRefused."""
    if not url:
        return Path(data_dir) / DATABASE_FILE
    for prefix in _SQLITE_PREFIXES:
        path = url.removeprefix(prefix)
        if path != url and path and ":memory:" not in path and "?" not in path:
            return Path(path)
    # The message only has the scheme: the rest of the URL may contain a password.
    raise StoreRefused(
        f"unknown store {url.partition(':')[0]}: use memory://, sqlite:///path/to/file "
        "or postgresql+asyncpg://user:password@host/database"
    )


def _is_postgres(url: str | None) -> TypeGuard[str]:
    """Whether the URL means PostgreSQL. Raises StoreRefused, also if its driver is missing."""
    if url is None or not url.startswith(_POSTGRES_PREFIXES):
        return False
    # SQLAlchemy needs greenlet for asyncio drivers.
    if find_spec("asyncpg") is None or find_spec("greenlet") is None:
        raise StoreRefused("PostgreSQL as a store needs its driver: pip install 'groupd[postgres]'")
    return True
