"""SQLite as the backend of `SqlStore`: the URL, pragmas, the file's lock, what its errors mean.

One connection writes; others read and, thanks to the write-ahead log, never wait for an fsync.
A commit is on disk when it returns (`synchronous=FULL`). Writing transactions take SQLite's
write lock when they begin, so that none fails halfway because another program came first.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from groupd.storage.async_engine import AsyncConnection, AsyncEngine
from groupd.storage.batches import Advance, Rows
from groupd.storage.disk import FULL, NO_SPACE, is_full
from groupd.storage.engine import FAILURES, EngineBackend, Transactions
from groupd.storage.lock import DataLock
from groupd.storage.log import LogCorrupt, LogError, LogUnavailable, StoreRefused
from groupd.storage.migrate import check_readable, migrate
from groupd.storage.sql import SqlStore
from groupd.storage.sqlite_append import append_rows
from groupd.storage.sqlite_checks import check_acknowledged, check_tables, number_logs
from groupd.storage.sqlite_driver import SqliteConnection
from groupd.storage.witness import Witness

READERS = 2
BUSY_TIMEOUT_MS = 5000

_SQLITE_ERROR = 1
_SQLITE_IOERR = 10
_SQLITE_CORRUPT = 11
_SQLITE_FULL = 13
_SQLITE_NOTADB = 26

_DAMAGE = (_SQLITE_ERROR, _SQLITE_CORRUPT, _SQLITE_NOTADB)
"""The first is "no such table" or column: statements are all tested, so the schema is damaged."""

_UNDECODABLE = "Could not decode to UTF-8"
"""Python's own error, without a code of SQLite: a text that was never written so."""

_PRAGMAS = (
    f"busy_timeout={BUSY_TIMEOUT_MS}",
    "synchronous=FULL",
    # macOS: without it, fsync leaves the data in the disk's cache.
    "fullfsync=ON",
    "cache_size=-16384",
)
_WRITER_PRAGMAS = (
    # It appends, and would fill a larger one with what nobody reads through it.
    "cache_size=-2048",
    # Fewer, larger checkpoints than the default of 1000 pages.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)


def sqlite_store(path: Path) -> SqlStore:
    """The store in the database file `path`, not started."""
    return SqlStore(SqliteBackend(path))


class SqliteBackend(EngineBackend):
    """See `storage.sql_logs.Backend`."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), lambda error: _log_error(path, error))
        self._path = path
        self._lock = DataLock(path)
        self._witness = Witness(path)

    async def start(self) -> None:
        """Locks, connects and migrates. Raises StoreRefused; may then be called again."""
        self._lock.acquire()
        writer = Transactions(_engine(self._path, writes=True), 1)
        try:
            await writer.run(self._prepare)
        except BaseException as error:
            await writer.close()
            self._closed()
            if isinstance(error, FAILURES):
                raise _refusal(self._path, error) from error
            raise
        self._open(writer, Transactions(_engine(self._path, writes=False), READERS))

    def _prepare(self, connection: Connection) -> None:
        where = str(self._path)
        migrate(connection, where)
        number_logs(connection)
        check_tables(connection, where)
        self._witness.open()
        check_acknowledged(connection, where, self._witness)
        # The file's name must be as durable as what will be in it.
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    async def append(self, advances: Sequence[Advance], rows: Rows) -> None:
        async def transaction(connection: AsyncConnection) -> None:
            driver = connection.sync_connection.connection.driver_connection
            assert isinstance(driver, SqliteConnection)
            try:
                await driver.transact(lambda sqlite: append_rows(sqlite, advances, rows))
            except sqlite3.Error:
                # Nobody knows what state it is in; the next transaction gets another.
                await connection.invalidate()
                raise

        await self._run_on(self._writers, transaction)

    def acknowledged(self, log_id: int, next_offset: int) -> None:
        self._witness.note(log_id, next_offset)

    def forget(self) -> None:
        self._witness.forget()

    def _closed(self) -> None:
        self._witness.close()
        self._lock.release()


class SqliteReadBackend(EngineBackend):
    """Reads a database that another process may be writing: takes no lock, creates nothing,
    migrates nothing. See `storage.reader`."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), lambda error: _log_error(path, error))
        self._path = path

    async def start(self) -> None:
        """Raises StoreRefused."""
        if not self._path.is_file():
            raise StoreRefused(f"{self._path}: there is no such store")
        readers, writers = (
            Transactions(_engine(self._path, writes=False, read_only=True), 1) for _ in range(2)
        )
        try:
            await readers.run(lambda connection: check_readable(connection, str(self._path)))
        except BaseException as error:
            await readers.close()
            if isinstance(error, FAILURES):
                raise _refusal(self._path, error) from error
            raise
        self._open(writers, readers)


def _refusal(path: Path, error: Exception) -> StoreRefused:
    reason, code = _reason(error)
    if code == _SQLITE_IOERR and is_full(path.parent):
        reason, code = FULL, _SQLITE_FULL
    if code == _SQLITE_FULL:
        return StoreRefused(f"{path}: {reason}: make room and start again")
    if _is_damage(reason, code):
        return StoreRefused(
            f"{path}: damaged or no SQLite database ({reason}): restore it from a copy "
            "or choose another data directory"
        )
    return StoreRefused(
        f"{path}: cannot be opened ({reason}): mend the file's permissions and disk or "
        "choose another data directory"
    )


def _log_error(path: Path, error: Exception) -> LogError:
    reason, code = _reason(error)
    kind = LogCorrupt if _is_damage(reason, code) else LogUnavailable
    return kind(f"{path}: {reason}")


def _is_damage(reason: str, code: int) -> bool:
    return code in _DAMAGE or reason.startswith(_UNDECODABLE)


def _reason(error: Exception) -> tuple[str, int]:
    """One line and SQLite's primary result code (255: not from SQLite)."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError) and cause.errno in NO_SPACE:
        return FULL, _SQLITE_FULL
    code = getattr(cause, "sqlite_errorcode", -1) & 0xFF
    reason = FULL if code == _SQLITE_FULL else str(cause).partition("\n")[0]
    return reason, code


def _engine(path: Path, *, writes: bool, read_only: bool = False) -> AsyncEngine:
    thread_name = f"groupd-sqlite-{'writer' if writes else 'reader'}"

    async def connect(*_: Any, **__: Any) -> SqliteConnection:
        connection = SqliteConnection(str(path), thread_name, read_only=read_only)
        await connection.open()
        return connection

    engine = AsyncEngine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        connect,
        # `Transactions` keeps the connections.
        poolclass=NullPool,
    )

    def connected(connection: Any, _record: Any) -> None:
        try:
            _configure(connection, path, writes)
        except BaseException:
            connection.close()
            raise

    def begin(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, SqliteConnection)
        driver.begin("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine.sync_engine, "connect", connected)
    event.listen(engine.sync_engine, "begin", begin)
    return engine


def _configure(connection: Any, path: Path, writes: bool) -> None:
    """`connection`: SQLAlchemy's synchronous face of the driver's."""
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    if not writes:
        cursor.execute("PRAGMA query_only=ON")
        return
    cursor.execute("PRAGMA journal_mode=WAL")
    (mode,) = cursor.fetchone()
    if mode != "wal":
        raise StoreRefused(
            f"{path}: the file system has no write-ahead log: choose a data directory on a "
            "local disk"
        )
    for pragma in _WRITER_PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
