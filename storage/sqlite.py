"""SQLite as the backend of `SqlStore`: files, pragmas, threads.

One thread writes on the only connection that may; others read on connections of their own and,
thanks to the write-ahead log, never wait for an fsync. A transaction is one job of a thread:
a caller that is cancelled leaves a job that runs to its end or never starts. A commit is on disk
when it returns (`synchronous=FULL`).
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from storage.lock import DataLock
from storage.log import LogCorrupt, LogError, LogUnavailable, StoreRefused
from storage.migrate import migrate
from storage.sql import SqlStore

T = TypeVar("T")

READERS = 2
BUSY_TIMEOUT_MS = 5000

_SQLITE_CORRUPT = 11
_SQLITE_NOTADB = 26

_PRAGMAS = (
    f"busy_timeout={BUSY_TIMEOUT_MS}",
    "synchronous=FULL",
    # macOS: without it, fsync leaves the data in the disk's cache.
    "fullfsync=ON",
    "cache_size=-16384",
)
_WRITER_PRAGMAS = (
    # Fewer, larger checkpoints than the default of 1000 pages.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)


def sqlite_store(path: Path) -> SqlStore:
    """The store in the database file `path`, not started."""
    return SqlStore(SqliteBackend(path))


class SqliteBackend:
    """See `storage.sql_logs.Backend`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = DataLock(path)
        self._writer: _Threads | None = None
        self._readers: _Threads | None = None

    async def start(self) -> None:
        """Locks, connects and migrates. Raises StoreRefused; may then be called again."""
        self._lock.acquire()
        writer = _Threads(self._path, "writer", 1)
        try:
            await writer.run(self._prepare)
        except BaseException as error:
            await writer.close()
            self._lock.release()
            if isinstance(error, (SQLAlchemyError, sqlite3.Error)):
                raise self._refusal(error) from error
            raise
        self._writer = writer
        self._readers = _Threads(self._path, "reader", READERS)

    def _prepare(self, connection: Connection) -> None:
        migrate(connection, str(self._path))
        # The file's name must be as durable as what will be in it.
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _refusal(self, error: Exception) -> StoreRefused:
        reason, code = _reason(error)
        if code in (_SQLITE_CORRUPT, _SQLITE_NOTADB):
            return StoreRefused(
                f"{self._path}: damaged or no SQLite database ({reason}): restore it from a copy "
                "or choose another data directory"
            )
        return StoreRefused(
            f"{self._path}: cannot be opened ({reason}): mend the file's permissions and disk or "
            "choose another data directory"
        )

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._writer, work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._readers, work)

    async def _run(self, threads: _Threads | None, work: Callable[[Connection], T]) -> T:
        if threads is None:
            raise LogUnavailable(f"{self._path}: not open")
        try:
            return await threads.run(work)
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise self._log_error(error) from error

    def _log_error(self, error: Exception) -> LogError:
        reason, code = _reason(error)
        kind = LogCorrupt if code in (_SQLITE_CORRUPT, _SQLITE_NOTADB) else LogUnavailable
        return kind(f"{self._path}: {reason}")

    async def close(self) -> None:
        """Waits for what is running, ends the threads, lets go of the file. Idempotent."""
        readers, self._readers = self._readers, None
        writer, self._writer = self._writer, None
        if readers is not None:
            await readers.close()
        if writer is not None:
            await writer.close()
        self._lock.release()


def _reason(error: Exception) -> tuple[str, int]:
    """One line and SQLite's primary result code (255: not from SQLite)."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).partition("\n")[0], getattr(cause, "sqlite_errorcode", -1) & 0xFF


class _Threads:
    """A few threads with an engine of as many connections."""

    def __init__(self, path: Path, role: str, count: int) -> None:
        self._engine = _engine(path, count, writes=role == "writer")
        self._executor = ThreadPoolExecutor(count, f"groupd-sqlite-{role}")
        self._running: set[Future[Any]] = set()

    async def run(self, work: Callable[[Connection], T]) -> T:
        future = self._executor.submit(self._transaction, work)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(future)

    def _transaction(self, work: Callable[[Connection], T]) -> T:
        with self._engine.begin() as connection:
            return work(connection)

    async def close(self) -> None:
        # The loop must not wait for a thread, so the jobs come first.
        jobs = [asyncio.wrap_future(future) for future in tuple(self._running)]
        await asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.wrap_future(self._executor.submit(self._engine.dispose))
        self._executor.shutdown()


def _engine(path: Path, connections: int, *, writes: bool) -> Engine:
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
    )

    def connected(connection: Any, _record: Any) -> None:
        try:
            _configure(connection, path, writes)
        except BaseException:
            connection.close()
            raise

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begin)
    return engine


def _configure(connection: sqlite3.Connection, path: Path, writes: bool) -> None:
    # Without this, the driver would begin transactions where it sees fit.
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    if not writes:
        connection.execute("PRAGMA query_only=ON")
        return
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreRefused(
            f"{path}: the file system has no write-ahead log: choose a data directory on a "
            "local disk"
        )
    for pragma in _WRITER_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
