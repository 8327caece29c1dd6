"""The backend of `SqlStore` on async SQLAlchemy engines, for every database.

A transaction runs in a task of its own: a caller that is cancelled while it waits for its turn
starts nothing, one that is cancelled later leaves a transaction that runs to its end. Connections
stay open between transactions, which saves the trips of a checkout; one that has failed is
replaced before it is used again.

A database brings `Transactions` for writing and for reading (an engine each, so that reads never
queue behind writes) and a `Failure` that says what its errors mean.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from groupd.storage.async_engine import AsyncConnection, AsyncEngine
from groupd.storage.batches import Advance, Rows
from groupd.storage.log import LogError, LogUnavailable

T = TypeVar("T")

Failure = Callable[[Exception], LogError]
"""What a failure of SQLAlchemy or of the system means to the caller of a transaction."""

FAILURES = (SQLAlchemyError, sqlite3.Error, OSError)
"""What `Transactions.run` raises beside the errors of the work itself."""


IsDead = Callable[[AsyncConnection], bool]
"""Whether a connection is known to have ended, so that no transaction needs to fail on it."""


def _alive(connection: AsyncConnection) -> bool:
    return False


class Transactions:
    """Up to `connections` transactions at a time, in the order of the calls; there is no limit
    to the waiting. Owns `engine`. Used from one event loop."""

    def __init__(self, engine: AsyncEngine, connections: int, is_dead: IsDead = _alive) -> None:
        self._engine = engine
        self._is_dead = is_dead
        self._connections = connections
        self._turns = asyncio.Semaphore(connections)
        self._idle: list[AsyncConnection] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[Connection], T]) -> T:
        """`work` in a transaction: committed when it returns, rolled back when it raises."""
        return await self.run_on(in_transaction(work))

    async def run_on(self, transaction: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """`transaction` has the connection for itself. It begins and ends what it does there, and
        leaves the connection without a transaction, or invalidated."""
        await self._turns.acquire()
        task = asyncio.get_running_loop().create_task(self._transaction(transaction))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        # Not in the task: one that is cancelled before its first step never gets there.
        self._tasks.discard(task)
        self._turns.release()

    async def _transaction(self, transaction: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        connection = await self._connection()
        try:
            return await transaction(connection)
        finally:
            self._idle.append(connection)

    async def _connection(self) -> AsyncConnection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.invalidated and self._is_dead(connection):
                await connection.invalidate()
            if not connection.invalidated:
                return connection
            await connection.close()
        return await self._engine.connect()

    async def close(self) -> None:
        """Waits for every `run` that was called before, then ends the connections."""
        for _ in range(self._connections):
            await self._turns.acquire()
        while self._idle:
            await self._idle.pop().close()
        await self._engine.dispose()


def in_transaction(
    work: Callable[[Connection], T],
) -> Callable[[AsyncConnection], Awaitable[T]]:
    """`work` for `Transactions.run_on`."""
    return lambda connection: connection.run_sync(lambda sync: _transact(sync, work))


def _transact(connection: Connection, work: Callable[[Connection], T]) -> T:
    try:
        with connection.begin():
            return work(connection)
    except FAILURES:
        # Nobody knows what state it is in; the next transaction gets another.
        connection.invalidate()
        raise


class EngineBackend:
    """See `storage.sql_logs.Backend`; `start` belongs to the database, which calls `_open`.
    `where` names the database in messages, without passwords."""

    def __init__(self, where: str, failure: Failure) -> None:
        self._where = where
        self._failure = failure
        self._writers: Transactions | None = None
        self._readers: Transactions | None = None
        self._closing: asyncio.Task[None] | None = None

    def _open(self, writers: Transactions, readers: Transactions) -> None:
        self._writers, self._readers, self._closing = writers, readers, None

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._writers, work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._readers, work)

    async def append(self, advances: Sequence[Advance], rows: Rows) -> None:
        """See `storage.sql_logs.Backend`; of a database that only reads."""
        raise LogUnavailable(f"{self._where}: open for reading")

    async def _run(self, transactions: Transactions | None, work: Callable[[Connection], T]) -> T:
        return await self._run_on(transactions, in_transaction(work))

    async def _run_on(
        self,
        transactions: Transactions | None,
        transaction: Callable[[AsyncConnection], Awaitable[T]],
    ) -> T:
        if transactions is None:
            raise LogUnavailable(f"{self._where}: not open")
        try:
            return await transactions.run_on(transaction)
        except FAILURES as error:
            raise self._failure(error) from error

    async def lost(self) -> str:
        """Never returns: a lock that the system keeps is not lost."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    def acknowledged(self, log_id: int, next_offset: int) -> None:
        """Only a database whose files could be lost behind its back has to remember."""

    def forget(self) -> None:
        """See `acknowledged`."""

    async def close(self) -> None:
        """Refuses new transactions, waits for those under way and ends the connections, also
        when the caller is cancelled. Idempotent; may be followed by another `start`."""
        if self._closing is None:
            readers, self._readers = self._readers, None
            writers, self._writers = self._writers, None
            if readers is None or writers is None:
                return
            closing = self._close(writers, readers)
            self._closing = asyncio.get_running_loop().create_task(closing)
        await asyncio.shield(self._closing)

    async def _close(self, writers: Transactions, readers: Transactions) -> None:
        # Readers first: SQLite tidies up when its last connection, a writing one, goes.
        await readers.close()
        await writers.close()
        self._closed()

    def _closed(self) -> None:
        """What a database does when its connections have ended."""
