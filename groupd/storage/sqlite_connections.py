"""Connections to SQLite: their settings, and the threads that they run in.

SQLite blocks its caller, so an event loop must not call it. Readers are SQLAlchemy's asynchronous
connections on aiosqlite, which passes each statement to its thread and back. There is only one
writer, and every commit of every client waits for it. It has a thread of its own, to which a
transaction is passed as a whole: one trip there and one back, however many statements it has. On a
busy event loop every trip costs time, because the thread waits for the interpreter's lock, and the
result waits for the loop's next iteration (ADR 26).
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from groupd.storage.db_transactions import Connect, transact
from groupd.storage.log import StoreRefused
from groupd.storage.private_files import private

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5000
WRITER_THREAD = "groupd-sqlite-writer"

_PRAGMAS = (
    f"busy_timeout={BUSY_TIMEOUT_MS}",
    "synchronous=FULL",
    # On macOS, fsync without this leaves the data in the disk's cache.
    "fullfsync=ON",
    "cache_size=-16384",
)
_WRITER_PRAGMAS = (
    # This connection only appends. A larger cache would fill with pages that it never reads.
    "cache_size=-2048",
    # This makes fewer and larger checkpoints than the default of 1000 pages.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)


def sqlite_writer(path: Path) -> SqliteWriter:
    """Returns the writer of the database file `path`, which has a thread of its own."""

    def open_file() -> sqlite3.Connection:
        # SQLite gives its write-ahead log the permissions of the database file.
        os.close(private(path, os.O_RDWR | os.O_CREAT))
        # Without an isolation level the driver does not begin transactions by itself.
        return sqlite3.connect(str(path), isolation_level=None)

    def connected(connection: sqlite3.Connection, _record: Any) -> None:
        try:
            _prepare_writer(connection, path)
        except BaseException:
            connection.close()
            raise

    def begin(connection: Connection) -> None:
        driver_of(connection).execute("BEGIN IMMEDIATE")

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=open_file,
        # `SqliteWriter` keeps the connection.
        poolclass=NullPool,
        # Keep values out of error texts: they are what clients store, such as users' keys.
        hide_parameters=True,
    )
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begin)

    return SqliteWriter(engine)


def sqlite_readers(path: Path, *, read_only: bool = False) -> Connect:
    """Returns a function that connects for reading, through aiosqlite. `read_only`: the file must
    exist and is opened without the right to write. (A daemon's own readers need that right to
    recover a write-ahead log.)"""
    url = URL.create("sqlite+aiosqlite", database=str(path))
    if read_only:
        query = {"mode": "ro", "uri": "true"}
        url = URL.create("sqlite+aiosqlite", database=f"file:{quote(str(path))}", query=query)

    def connected(connection: Any, _record: Any) -> None:
        try:
            cursor = connection.cursor()
            for pragma in (*_PRAGMAS, "query_only=ON"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()
        except BaseException:
            connection.close()
            raise

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    @cache
    def engine() -> AsyncEngine:
        # This also loads SQLAlchemy's ORM, so it is done only when something is read.
        from sqlalchemy.ext.asyncio import create_async_engine

        made = create_async_engine(url, poolclass=NullPool, connect_args={"isolation_level": None})
        event.listen(made.sync_engine, "connect", connected)
        event.listen(made.sync_engine, "begin", begin)
        return made

    async def connect() -> AsyncConnection:
        if read_only and not path.is_file():
            raise FileNotFoundError(str(path))
        # The first call takes 80 ms, in which the event loop could answer no request.
        made = await asyncio.to_thread(engine)
        return await made.connect()

    return connect


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Returns SQLite's own connection below SQLAlchemy's. Statements that every commit waits for
    use it, because they take half the time there."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _prepare_writer(connection: sqlite3.Connection, path: Path) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise StoreRefused(
            f"{path}: the file system has no write-ahead log: choose a data directory on a "
            "local disk"
        )
    for pragma in _WRITER_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


class SqliteWriter:
    """See `storage.db_transactions.Runner`. One thread runs all transactions, each as a whole, in
    the order of the calls, on one connection. After a failure the connection is given up at once,
    without a rollback, and the next transaction opens a new one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon thread, because a process that ends without `close` must not wait for it forever.
        self._thread = Thread(target=self._serve, name=WRITER_THREAD, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[Connection], T], *, single: bool = False) -> T:
        """See `storage.db_transactions.Runner`. If the caller is cancelled after the thread has
        begun, the transaction still runs to its end. Raises the errors of the engine and of
        `work`."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def call() -> None:
            if answer.cancelled():
                return
            try:
                result = transact(self._connected(), work)
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                _answer(answer, answer.set_exception, error)
            else:
                _answer(answer, answer.set_result, result)

        self._calls.put(call)
        return await answer

    async def close(self) -> None:
        """Waits for every `run` that was called before, then ends the connection."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end() -> None:
            try:
                self._disconnect()
            finally:
                _answer(ended, ended.set_result, None)

        self._calls.put(end)
        self._calls.put(None)
        await ended
        # The thread has answered its last call, so this takes microseconds.
        self._thread.join()

    def _serve(self) -> None:
        """Executes the calls one after the other, in the thread."""
        while (call := self._calls.get()) is not None:
            call()

    def _connected(self) -> Connection:
        """Returns the connection, or opens a new one. Called in the thread."""
        connection = self._connection
        if connection is None or connection.invalidated:
            self._disconnect()
            connection = self._connection = self._engine.connect()
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _answer(answer: asyncio.Future[Any], give: Callable[[Any], None], outcome: object) -> None:
    """Passes an outcome from the thread to the event loop that waits for it."""

    def in_loop() -> None:
        if not answer.done():
            give(outcome)

    with suppress(RuntimeError):  # the loop has ended
        answer.get_loop().call_soon_threadsafe(in_loop)
