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
from urllib.parse import quote

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from groupd.storage.batches import Advance, Rows
from groupd.storage.checksums import end_moved
from groupd.storage.disk import FULL, NO_SPACE, is_full
from groupd.storage.lock import DataLock
from groupd.storage.log import LogCorrupt, LogError, LogFenced, LogUnavailable, StoreRefused
from groupd.storage.migrate import migrate
from groupd.storage.sql import SqlStore
from groupd.storage.sqlite_checks import check_acknowledged, check_tables, number_logs
from groupd.storage.sqlite_thread import SqliteConnection
from groupd.storage.transactions import Connect, DatabaseBackend, ReadingBackend, Transactions
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


def sqlite_reader(path: Path) -> ReadingBackend:
    """The backend of a `StoreReader` on the database file `path`."""
    connect = _connect(path, writes=False, read_only=True)
    return ReadingBackend(str(path), SqliteErrors(path), connect)


class SqliteBackend(DatabaseBackend):
    """See `storage.sql_logs.Backend`."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), SqliteErrors(path))
        self._path = path
        self._lock = DataLock(path)
        self._witness = Witness(path)

    async def start(self) -> None:
        """Locks, connects and migrates. Raises StoreRefused; may then be called again."""
        self._lock.acquire()
        writer = Transactions(_connect(self._path, writes=True), 1)
        try:
            await self._prepare(writer, self._check)
        except BaseException:
            self._closed()
            raise
        self._open(writer, Transactions(_connect(self._path, writes=False), READERS))

    def _check(self, connection: Connection) -> None:
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
        await self.write(lambda connection: append_rows(connection, advances, rows))

    def acknowledged(self, log_id: int, next_offset: int) -> None:
        self._witness.note(log_id, next_offset)

    def forget(self) -> None:
        self._witness.forget()

    def _closed(self) -> None:
        self._witness.close()
        self._lock.release()


# Appends ----------------------------------------------------------------------------------------

_ADVANCE = """
    UPDATE log SET next_offset = ?, row_sum = row_sum + ?
    WHERE log_id = ? AND owner_epoch = ? AND next_offset = ? AND name IS NOT NULL
"""
_INSERT_BATCH = """
    INSERT INTO log_batch (log_id, base_offset, last_offset, max_timestamp_ms, row_crc, payload)
    VALUES (:log_id, :base_offset, :last_offset, :max_timestamp_ms, :row_crc, :payload)
"""


def append_rows(connection: Connection, advances: Sequence[Advance], rows: Rows) -> None:
    """In a transaction. Raises LogFenced (of no log in particular) when one is not where its
    writer believes: the caller rolls back whatever was done."""
    moves = [
        (
            advance.next_offset,
            end_moved(advance.log_id, advance.base_offset, advance.next_offset),
            advance.log_id,
            advance.owner_epoch,
            advance.base_offset,
        )
        for advance in advances
    ]
    driver = _driver(connection)
    if driver.executemany(_ADVANCE, moves).rowcount != len(moves):
        raise LogFenced([])
    driver.executemany(_INSERT_BATCH, rows)


# Errors -----------------------------------------------------------------------------------------


class SqliteErrors:
    """See `storage.transactions.DatabaseErrors`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def log_error(self, error: Exception) -> LogError:
        reason, code = _reason(error)
        kind = LogCorrupt if _is_damage(reason, code) else LogUnavailable
        return kind(f"{self._path}: {reason}")

    def refusal(self, error: Exception) -> StoreRefused:
        path = self._path
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


def _is_damage(reason: str, code: int) -> bool:
    return code in _DAMAGE or reason.startswith(_UNDECODABLE)


def _reason(error: Exception) -> tuple[str, int]:
    """One line and SQLite's primary result code (255: not from SQLite)."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError) and cause.errno in NO_SPACE:
        return FULL, _SQLITE_FULL
    if isinstance(cause, UnicodeDecodeError):
        # SQLite's message quotes a damaged name, and Python cannot make a text of it.
        return f"a damaged name ({cause.reason})", _SQLITE_CORRUPT
    code = getattr(cause, "sqlite_errorcode", -1) & 0xFF
    reason = FULL if code == _SQLITE_FULL else str(cause).partition("\n")[0]
    return reason, code


# Connections ------------------------------------------------------------------------------------


def _connect(path: Path, *, writes: bool, read_only: bool = False) -> Connect:
    """`read_only`: the file must be there and stays as it is."""
    target = f"file:{quote(str(path))}?mode=ro" if read_only else str(path)

    def open_file() -> sqlite3.Connection:
        if read_only and not path.is_file():
            raise StoreRefused(f"{path}: there is no such store")
        # Without an isolation level the driver begins no transactions where it sees fit.
        return sqlite3.connect(target, isolation_level=None, uri=read_only)

    def connected(connection: sqlite3.Connection, _record: Any) -> None:
        try:
            _configure(connection, path, writes)
        except BaseException:
            connection.close()
            raise

    def begin(connection: Connection) -> None:
        _driver(connection).execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=open_file,
        # `Transactions` keeps the connections.
        poolclass=NullPool,
    )
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begin)
    thread_name = f"groupd-sqlite-{'writer' if writes else 'reader'}"

    async def connect() -> SqliteConnection:
        connection = SqliteConnection(engine, thread_name)
        await connection.open()
        return connection

    return connect


def _driver(connection: Connection) -> sqlite3.Connection:
    """The connection below SQLAlchemy's. A statement that every commit waits for is executed there:
    it takes half of the time."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _configure(connection: sqlite3.Connection, path: Path, writes: bool) -> None:
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
