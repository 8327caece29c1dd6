"""Connections to SQLite: how they are set up, and the thread that each of them has.

SQLite blocks its caller, so an event loop must not call it. A transaction goes to the thread as a
whole and its result comes back: one trip there and one back, however many statements it has. On a
busy event loop every trip costs, because the thread waits for the interpreter's lock and the result
for the loop's next round.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from groupd.storage.log import StoreRefused
from groupd.storage.transactions import Connect

T = TypeVar("T")

BUSY_TIMEOUT_MS = 5000

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


def sqlite_connect(path: Path, *, writes: bool, read_only: bool = False) -> Connect:
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
        driver_of(connection).execute("BEGIN IMMEDIATE" if writes else "BEGIN")

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


def driver_of(connection: Connection) -> sqlite3.Connection:
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


class SqliteConnection:
    """See `storage.transactions.OpenConnection`. `thread_name`: for debuggers and for tests."""

    def __init__(self, engine: Engine, thread_name: str) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon that ends without `close` must not wait for this thread for ever.
        self._thread = Thread(target=self._serve, name=thread_name, daemon=True)

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
        """In the thread."""
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
        """In the thread."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _end_thread(self) -> None:
        self._calls.put(None)
        # It has answered its last call, so this takes microseconds.
        self._thread.join()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """What `work()` returns or raises, in the order of the calls."""
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
        """The thread."""
        while (call := self._calls.get()) is not None:
            call()
        self._disconnect()  # if the caller of `open` did not wait for it


def _answer(answer: asyncio.Future[Any], give: Callable[[Any], None], outcome: object) -> None:
    """From the thread into the loop that waits."""

    def in_loop() -> None:
        if not answer.done():
            give(outcome)

    with suppress(RuntimeError):  # the loop has ended
        answer.get_loop().call_soon_threadsafe(in_loop)
