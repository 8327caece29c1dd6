"""aiosqlite's connection, with one trip to its thread per statement.

aiosqlite goes to the thread for each call of a cursor: make, execute, fetch, close. On a busy
event loop every trip waits for the interpreter's lock and for the loop's next round. Here a
statement is executed, fetched and closed at once, and `BEGIN` travels with the first statement. A
transaction that needs nothing of the loop (`transact`: every append) makes one trip.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable, Sequence
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import quote

import aiosqlite

T = TypeVar("T")

_ITER_CHUNK_SIZE = 64  # aiosqlite's default, for iterators that are not used here


class SqliteConnection(aiosqlite.Connection):
    """A driver connection of SQLAlchemy. Transactions are opened with `begin` only."""

    def __init__(self, path: str, thread_name: str, *, read_only: bool = False) -> None:
        """`read_only`: the file must be there and stays as it is."""
        target = f"file:{quote(path)}?mode=ro" if read_only else path

        def connect() -> sqlite3.Connection:
            # Without an isolation level the driver begins no transactions where it sees fit.
            return sqlite3.connect(target, isolation_level=None, uri=read_only)

        super().__init__(connect, _ITER_CHUNK_SIZE)
        # Before 0.22 aiosqlite's connection is itself the thread.
        connection: Any = self
        self._worker: Thread = getattr(self, "_thread", connection)
        self._worker.name = thread_name
        # A daemon that ends without `close` must not wait for this thread for ever.
        self._worker.daemon = True
        self._begin: str | None = None

    async def open(self) -> None:
        """Starts the thread and connects."""
        try:
            await self
        except BaseException:
            # aiosqlite has told its thread to end, which must not answer a loop that is gone.
            self._worker.join()
            raise

    def begin(self, statement: str) -> None:
        """Opens a transaction right before the next statement."""
        self._begin = statement

    async def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """`work` in a writing transaction, all of it in the thread: committed when it returns,
        rolled back when it raises, also when the caller is gone. Raises sqlite3.Error and what
        `work` raises."""
        if self._connection is None:
            raise sqlite3.OperationalError("the connection is closed")
        result: T = await self._execute(self._transact, work)  # type: ignore[no-untyped-call]
        return result

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In the thread."""
        self._conn.execute("BEGIN IMMEDIATE")
        try:
            result = work(self._conn)
            self._commit()
        except BaseException:
            self._conn.rollback()
            raise
        return result

    def _commit(self) -> None:
        """In the thread."""
        self._conn.commit()

    async def commit(self) -> None:
        self._begin = None
        await self._execute(self._commit)  # type: ignore[no-untyped-call]

    async def rollback(self) -> None:
        self._begin = None
        await super().rollback()

    def cursor(self) -> _Cursor:  # type: ignore[override]
        return _Cursor(self)

    async def run_statement(self, many: bool, sql: str, parameters: Iterable[Any]) -> _Result:
        begin, self._begin = self._begin, None
        result: _Result = await self._execute(  # type: ignore[no-untyped-call]
            self._statement, begin, many, sql, parameters
        )
        return result

    def _statement(
        self, begin: str | None, many: bool, sql: str, parameters: Iterable[Any]
    ) -> _Result:
        """In the thread."""
        cursor = self._conn.cursor()
        try:
            if begin is not None:
                cursor.execute(begin)
            if many:
                cursor.executemany(sql, parameters)
            else:
                cursor.execute(sql, parameters)  # type: ignore[arg-type]
            rows = cursor.fetchall() if cursor.description else []
            return rows, cursor.description, cursor.rowcount, cursor.lastrowid
        except UnicodeDecodeError as error:
            # SQLite's message quotes a damaged name, and Python cannot make a text of it.
            damaged = sqlite3.DatabaseError(f"a damaged name ({error.reason})")
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged from error
        finally:
            cursor.close()

    async def close(self) -> None:
        await super().close()
        # The thread has answered its last call, this takes microseconds.
        self._worker.join()


_Result = tuple[list[Any], Any, int, int | None]


class _Cursor:
    """See `sqlalchemy.connectors.asyncio.AsyncIODBAPICursor`."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.arraysize = 1
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> _Cursor:
        return self

    def __await__(self) -> Generator[Any, None, _Cursor]:
        """SQLAlchemy 2.0 awaits the cursor where 2.1 enters it."""
        return self.__aenter__().__await__()

    async def execute(self, operation: str, parameters: Sequence[Any] = ()) -> None:
        await self._run(False, operation, parameters)

    async def executemany(self, operation: str, parameters: Iterable[Sequence[Any]]) -> None:
        await self._run(True, operation, parameters)

    async def _run(self, many: bool, operation: str, parameters: Iterable[Any]) -> None:
        result = await self._connection.run_statement(many, operation, parameters)
        self._rows, self.description, self.rowcount, self.lastrowid = result

    async def fetchall(self) -> list[Any]:
        return self._rows

    async def close(self) -> None:
        self._rows = []
