"""Connections to SQLite: how they are set up, and the threads that they run in.

SQLite blocks its caller, so an event loop must not call it. Readers are SQLAlchemy's asynchronous
connections on aiosqlite, which takes each statement to its thread and back.

The writer is what every commit of every client waits for, and there is only one. It has a thread
of ours, to which a transaction goes as a whole: one trip there and one back, however many
statements it has. On a busy event loop every trip costs, because the thread waits for the
interpreter's lock and the result for the loop's next round (ADR 26).
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

from groupd.storage.log import StoreRefused
from groupd.storage.private_files import private
from groupd.storage.transactions import Connect, transact

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5000
WRITER_THREAD = "groupd-sqlite-writer"

_PRAGMAS = (
    f"busy_timeout={BUSY_TIMEOUT_MS}",
    "synchronous=FULL",
    # macOS: without it, fsync leaves the data in the disk's cache.
    "fullfsync=ON",
    "cache_size=-16384",
)
_WRITER_PRAGMAS = (
    # This connection appends, and would fill a larger cache with pages that it never reads.
    "cache_size=-2048",
    # Fewer, larger checkpoints than the default of 1000 pages.
    "wal_autocheckpoint=4000",
    "journal_size_limit=67108864",
)


def sqlite_writer(path: Path) -> SqliteWriter:
    """What writes to the database file `path`, in a thread of its own."""

    def open_file() -> sqlite3.Connection:
        # SQLite gives its write-ahead log the rights that the database has.
        os.close(private(path, os.O_RDWR | os.O_CREAT))
        # Without an isolation level the driver begins no transactions where it sees fit.
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
        # Values are not for error texts: they are what clients store, keys of users among them.
        hide_parameters=True,
    )
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begin)

    return SqliteWriter(engine)


def sqlite_readers(path: Path, *, read_only: bool = False) -> Connect:
    """Connects for reading, through aiosqlite. `read_only`: the file must be there and is opened
    without the right to write, which a daemon's own readers need to recover a write-ahead log."""
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
        # Loads SQLAlchemy's ORM as well: only where something is read.
        from sqlalchemy.ext.asyncio import create_async_engine

        made = create_async_engine(url, poolclass=NullPool, connect_args={"isolation_level": None})
        event.listen(made.sync_engine, "connect", connected)
        event.listen(made.sync_engine, "begin", begin)
        return made

    async def connect() -> AsyncConnection:
        if read_only and not path.is_file():
            raise FileNotFoundError(str(path))
        # That takes 80 ms the first time, in which no request would be answered.
        made = await asyncio.to_thread(engine)
        return await made.connect()

    return connect


def driver_of(connection: Connection) -> sqlite3.Connection:
    """The connection below SQLAlchemy's. A statement that every commit waits for is executed there:
    it takes half of the time."""
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
    """See `storage.transactions.Runner`. One thread does all transactions, each as a whole, in the
    order of the calls, on one connection. A connection on which something has failed is given up at
    once, without a rollback, and the next transaction makes another one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon that ends without `close` must not wait for this thread for ever.
        self._thread = Thread(target=self._serve, name=WRITER_THREAD, daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[Connection], T], *, single: bool = False) -> T:
        """See `storage.transactions.Runner`. A caller that is cancelled once the thread is at it
        leaves a transaction that runs to its end. Raises what the engine and `work` raise."""
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
        # It has answered its last call, so this takes microseconds.
        self._thread.join()

    def _serve(self) -> None:
        """Runs in the thread: makes one call after the other."""
        while (call := self._calls.get()) is not None:
            call()

    def _connected(self) -> Connection:
        """The connection, or a new one; in the thread."""
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
    """Hands an outcome from the thread to the loop that waits for it."""

    def in_loop() -> None:
        if not answer.done():
            give(outcome)

    with suppress(RuntimeError):  # the loop has ended
        answer.get_loop().call_soon_threadsafe(in_loop)
