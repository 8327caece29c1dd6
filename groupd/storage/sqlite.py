"""SQLite as the backend of `SqlStore`: the URL, pragmas, the file's lock, the meaning of errors.

One connection writes. Others read and, thanks to the write-ahead log, never wait for an fsync. A
commit is on disk when it returns (`synchronous=FULL`). A writing transaction takes SQLite's write
lock when it begins, so that it cannot fail halfway because another program was faster.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from groupd.storage.batches import Advance, BatchRows
from groupd.storage.checksums import end_moved
from groupd.storage.db_transactions import DatabaseBackend, ReadingBackend, Transactions
from groupd.storage.log import LogCorrupt, LogError, LogFenced, LogUnavailable, StoreRefused
from groupd.storage.migrate import migrate
from groupd.storage.sql import SqlStore
from groupd.storage.sqlite_connections import driver_of, sqlite_readers, sqlite_writer
from groupd.storage.sqlite_files import FULL, NO_SPACE, AcknowledgedEnds, DataLock, is_full
from groupd.storage.tables import (
    config_override,
    log,
    log_batch,
    meta,
    producer_id,
    security_entry,
    topic,
)

READERS = 2

_SQLITE_ERROR = 1
_SQLITE_IOERR = 10
_SQLITE_CORRUPT = 11
_SQLITE_FULL = 13
_SQLITE_NOTADB = 26

_DAMAGE = (_SQLITE_ERROR, _SQLITE_CORRUPT, _SQLITE_NOTADB)
"""Codes that mean a damaged database. SQLITE_ERROR means that a table or column is missing: all
statements are tested, so the schema is damaged."""

_UNDECODABLE = "Could not decode to UTF-8"
"""Python's own error, without an error code of SQLite, for a text that is not UTF-8. Such a text
was never written."""


def sqlite_store(path: Path) -> SqlStore:
    """Returns the store in the database file `path`, not started."""
    return SqlStore(SqliteBackend(path))


def sqlite_reader(path: Path) -> ReadingBackend:
    """Returns the backend of a `StoreReader` on the database file `path`."""
    connect = sqlite_readers(path, read_only=True)
    return ReadingBackend(str(path), SqliteErrors(path), connect)


class SqliteBackend(DatabaseBackend):
    """See `storage.sql_logs.Backend`."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), SqliteErrors(path))
        self._path = path
        self._lock = DataLock(path)
        self._acknowledged_ends = AcknowledgedEnds(path)

    async def start(self) -> None:
        """Locks, connects and migrates. Raises StoreRefused; may then be called again."""
        self._lock.acquire()
        writer = sqlite_writer(self._path)
        try:
            await self._prepare(writer, self._check)
        except BaseException:
            self._closed()
            raise
        self._open(writer, Transactions(sqlite_readers(self._path), READERS))

    def _check(self, connection: Connection) -> None:
        where = str(self._path)
        migrate(connection, where)
        number_logs(connection)
        check_tables(connection, where)
        self._acknowledged_ends.open()
        check_acknowledged(connection, where, self._acknowledged_ends)
        # The directory must be synced, too, so that the file does not disappear.
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def append(self, advances: Sequence[Advance], rows: BatchRows) -> Coroutine[Any, Any, None]:
        # This is not a coroutine function, to save time: every commit of every client waits for it.
        return self._run(self._writers, lambda connection: append_rows(connection, advances, rows))

    def acknowledged(self, log_id: int, next_offset: int) -> None:
        self._acknowledged_ends.note(log_id, next_offset)

    def forget(self) -> None:
        self._acknowledged_ends.forget()

    def _closed(self) -> None:
        self._acknowledged_ends.close()
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


def append_rows(connection: Connection, advances: Sequence[Advance], rows: BatchRows) -> None:
    """Appends within a transaction of the caller. Raises LogFenced (without names of logs) if the
    end or owner epoch of a log is not what its writer expects. Then the caller must roll back."""
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
    driver = driver_of(connection)
    if driver.executemany(_ADVANCE, moves).rowcount != len(moves):
        raise LogFenced([])
    driver.executemany(_INSERT_BATCH, rows)


# Errors -----------------------------------------------------------------------------------------


class SqliteErrors:
    """See `storage.db_transactions.DatabaseErrors`. UnicodeDecodeError: Python cannot decode a
    text."""

    failures = (SQLAlchemyError, sqlite3.Error, OSError, UnicodeDecodeError)

    def __init__(self, path: Path) -> None:
        self._path = path

    def log_error(self, error: Exception) -> LogError:
        reason, code = _reason(error)
        kind = LogCorrupt if _is_damage(reason, code) else LogUnavailable
        return kind(f"{self._path}: {reason}")

    def refusal(self, error: Exception) -> StoreRefused:
        path = self._path
        if isinstance(error, FileNotFoundError):
            return StoreRefused(f"{path}: there is no such store")
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
    """Returns one line, and SQLite's primary result code (255 if the error is not from SQLite)."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError) and cause.errno in NO_SPACE:
        return FULL, _SQLITE_FULL
    if isinstance(cause, UnicodeDecodeError):
        # SQLite's message quotes the damaged name, so Python cannot decode the message.
        return f"a damaged name ({cause.reason})", _SQLITE_CORRUPT
    code = getattr(cause, "sqlite_errorcode", -1) & 0xFF
    reason = FULL if code == _SQLITE_FULL else str(cause).partition("\n")[0]
    return reason, code


# Checks at the start ----------------------------------------------------------------------------

# The small tables are checked completely, with their indexes, which takes less than a millisecond:
# a row that is missing in an index would look as if it had never existed. `log_batch` is as large
# as the data, so it is not checked here. Its rows are checked when they are read: each by its
# checksum, and all of them by their offsets, which must be consecutive.
_WHOLE = (meta, log, topic, config_override, producer_id, security_entry)
_MEND = "restore the data directory from a copy or choose another"

_FIRST_LOG_ID_BITS = 40
_LAST_LOG_ID = text("SELECT seq FROM sqlite_sequence WHERE name = 'log'")


def number_logs(connection: Connection) -> None:
    """Lets a new database count its log ids from a random number. Does nothing if logs have ids
    already.

    The log id is part of the checksum of every batch. So pages from another groupd's database (such
    as a write-ahead log that was mixed up) are found to be wrong.
    """
    if connection.execute(_LAST_LOG_ID).scalar() is not None:
        return
    first = secrets.randbits(_FIRST_LOG_ID_BITS)
    connection.execute(
        text("INSERT INTO sqlite_sequence (name, seq) VALUES ('log', :first)"), {"first": first}
    )


def check_tables(connection: Connection, where: str) -> None:
    """Checks that the small tables are whole and that the large one exists. Raises StoreRefused."""
    for table in _WHOLE:
        problem = str(connection.execute(text(f"PRAGMA integrity_check({table.name})")).scalar())
        if problem != "ok":
            raise StoreRefused(
                f"{where}: table {table.name} is damaged ({_line(problem)}): {_MEND}"
            )
    connection.execute(select(log_batch.c.batch_id).limit(1)).first()


def check_acknowledged(connection: Connection, where: str, ends: AcknowledgedEnds) -> None:
    """Raises StoreRefused if an append that was acknowledged is missing."""
    for log_id, noted in ends.notes():
        query = select(log.c.name, log.c.next_offset).where(log.c.log_id == log_id)
        row = connection.execute(query).one_or_none()
        if row is None:
            newest = connection.execute(_LAST_LOG_ID).scalar()
            is_new = connection.execute(select(log.c.log_id).limit(1)).first() is None
            if newest is not None and log_id <= int(newest) and not is_new:
                continue  # it was deleted since; logs of the coordinator never are
            lost = f"a log with {noted} records is missing"
        elif row.next_offset < noted:
            lost = f"log {row.name} ends at offset {row.next_offset}, but {noted} was acknowledged"
        else:
            continue
        raise StoreRefused(
            f"{where}: {lost}: its write-ahead log was cut or damaged, or an older copy took its "
            f"place: {_MEND}; to serve what is left, delete {ends.path}"
        )


def _line(problem: str) -> str:
    return " ".join(problem.split())
