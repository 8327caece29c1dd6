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
from groupd.storage.transactions import Connect

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


def sqlite_writer(path: Path) -> Connect:
    """Connects for writing: the one connection that does, in a thread of ours."""

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
        # `Transactions` keeps the connections.
        poolclass=NullPool,
        # Values are not for error texts: they are what clients store, keys of users among them.
        hide_parameters=True,
    )
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begin)

    async def connect() -> WriterConnection:
        connection = WriterConnection(engine)
        await connection.open()
        return connection

    return connect


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


class WriterConnection:
    """See `storage.transactions.OpenConnection`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon that ends without `close` must not wait for this thread for ever.
        self._thread = Thread(target=self._serve, name=WRITER_THREAD, daemon=True)

    async def open(self) -> None:
        """Starts the thread and connects. Raises what the engine raises."""
        self._thread.start()
        try:
            await self._in_thread(self._connect)
        except asyncio.CancelledError:
            # The thread may still be connecting, which must not hold up the loop.
            self._calls.put(None)
            raise
        except BaseException:
            self._end_thread()
            raise

    def _connect(self) -> None:
        """Connects; runs in the thread."""
        self._connection = self._engine.connect()

    @property
    def invalidated(self) -> bool:
        return self._connection is None or self._connection.invalidated

    async def run_sync(self, work: Callable[[Connection], T], /) -> T:
        connection = self._connection
        assert connection is not None, "not open"
        return await self._in_thread(lambda: work(connection))

    async def invalidate(self) -> None:
        if self._connection is not None:
            await self._in_thread(self._connection.invalidate)

    async def close(self) -> None:
        await self._in_thread(self._disconnect)
        self._end_thread()

    def _disconnect(self) -> None:
        """Disconnects; runs in the thread."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _end_thread(self) -> None:
        self._calls.put(None)
        # It has answered its last call, so this takes microseconds.
        self._thread.join()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """What `work()` returns or raises in the thread, which works in the order of the calls."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def call() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                _answer(answer, answer.set_exception, error)
            else:
                _answer(answer, answer.set_result, result)

        self._calls.put(call)
        return await answer

    def _serve(self) -> None:
        """Runs in the thread: makes one call after the other."""
        while (call := self._calls.get()) is not None:
            call()
        self._disconnect()  # if the caller of `open` did not wait for it


def _answer(answer: asyncio.Future[Any], give: Callable[[Any], None], outcome: object) -> None:
    """Hands an outcome from the thread to the loop that waits for it."""

    def in_loop() -> None:
        if not answer.done():
            give(outcome)

    with suppress(RuntimeError):  # the loop has ended
        answer.get_loop().call_soon_threadsafe(in_loop)
