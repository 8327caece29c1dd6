"""Transactions on a database, and the parts of a backend that are the same for every database.

A transaction runs in a task of its own. If the caller is cancelled while it waits for its turn,
nothing is started; if it is cancelled later, the transaction still runs to its end. Connections
stay open between transactions, which saves the work of opening them. After a failure a connection
is given up at once, without a rollback, because its statement may still be under way.

A database provides a way to connect for writing and one for reading (so that reads never wait
behind writes), and says what its errors mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from groupd.storage.batches import Advance, BatchRows
from groupd.storage.log import LogError, LogUnavailable, StoreRefused
from groupd.storage.migrate import check_readable
from groupd.storage.units import OwnedUnit, Unit

T = TypeVar("T")


class OpenConnection(Protocol):
    """A connection to the database: the part of SQLAlchemy's AsyncConnection that is used."""

    @property
    def invalidated(self) -> bool: ...

    async def run_sync(self, work: Callable[[Connection], T], /) -> T:
        """Returns the result of `work(connection)`, which may wait for the database."""
        ...

    async def invalidate(self) -> None: ...

    async def close(self) -> None: ...


Connect = Callable[[], Awaitable[OpenConnection]]


class DatabaseErrors(Protocol):
    """The meaning of one database's failures. Messages name the database, without passwords.
    `failures`: the errors that `Transactions.run` raises in addition to the errors of the work
    itself."""

    @property
    def failures(self) -> tuple[type[Exception], ...]: ...

    def log_error(self, error: Exception) -> LogError:
        """Returns the error that a failed transaction raises."""
        ...

    def refusal(self, error: Exception) -> StoreRefused:
        """Returns the error that a failed start raises."""
        ...


IsDead = Callable[[OpenConnection], bool]
"""Whether a connection is known to have ended. Then it is not used for a transaction."""


class Runner(Protocol):
    """Runs transactions, each as a whole, in the order of the calls. Used from one event loop."""

    async def run(self, work: Callable[[Connection], T], *, single: bool = False) -> T:
        """Runs `work` in a transaction, which is committed when `work` returns and rolled back when
        it raises. `single`: `work` executes one statement. A server commits it by itself, which
        saves two trips; if `work` raises after the statement, it is not rolled back."""
        ...

    async def close(self) -> None:
        """Waits for every earlier `run`, then closes the connections."""
        ...


class Transactions:
    """A `Runner` of up to `connections` transactions at a time. Any number of calls may wait."""

    def __init__(self, connect: Connect, connections: int, is_dead: IsDead | None = None) -> None:
        self._connect = connect
        self._is_dead = is_dead
        self._connections = connections
        self._turns = asyncio.Semaphore(connections)
        self._idle: list[OpenConnection] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[Connection], T], *, single: bool = False) -> T:
        await self._turns.acquire()
        task = asyncio.get_running_loop().create_task(self._transaction(work, single))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: asyncio.Task[Any]) -> None:
        # This is not done in the task: a task that is cancelled before its first step would never
        # do it.
        self._tasks.discard(task)
        self._turns.release()
        if not task.cancelled():
            task.exception()  # marks the error as seen: the caller may have been cancelled

    async def _transaction(self, work: Callable[[Connection], T], single: bool) -> T:
        connection = await self._connection()
        run = _execute if single else transact
        try:
            return await connection.run_sync(lambda sync: run(sync, work))
        finally:
            self._idle.append(connection)

    async def _connection(self) -> OpenConnection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.invalidated and self._is_dead and self._is_dead(connection):
                await connection.invalidate()
            if not connection.invalidated:
                return connection
            await connection.close()
        return await self._connect()

    async def close(self) -> None:
        for _ in range(self._connections):
            await self._turns.acquire()
        while self._idle:
            await self._idle.pop().close()


def transact(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Runs one transaction. If something fails, the connection is invalid afterwards, because a
    statement may still be under way."""
    usable = False
    try:
        transaction = connection.begin()
        try:
            result = work(connection)
        except LogError:
            # `work` itself has refused, so no statement is under way.
            transaction.rollback()
            usable = True
            raise
        transaction.commit()
        usable = True
        return result
    finally:
        if not usable:
            connection.invalidate()


def _execute(connection: Connection, work: Callable[[Connection], T]) -> T:
    """Runs `work` without a transaction: its one statement is committed by itself."""
    connection.execution_options(isolation_level="AUTOCOMMIT")
    try:
        return transact(connection, work)
    finally:
        if not connection.invalidated:
            usual = connection.default_isolation_level
            connection.execution_options(isolation_level=usual)


class DatabaseBackend:
    """See `storage.sql_logs.Backend`. A subclass for each database has `start`, which calls
    `_open`. `where` names the database in messages, without passwords."""

    def __init__(self, where: str, errors: DatabaseErrors) -> None:
        self._where = where
        self._errors = errors
        self._writers: Runner | None = None
        self._readers: Runner | None = None
        self._one_by_one = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    async def _prepare(self, transactions: Runner, work: Callable[[Connection], T]) -> T:
        """Runs the first transaction. Raises StoreRefused. On any error `transactions` is
        closed."""
        try:
            return await transactions.run(work)
        except BaseException as error:
            await transactions.close()
            if isinstance(error, self._errors.failures):
                raise self._errors.refusal(error) from error
            raise

    def _open(self, writers: Runner, readers: Runner) -> None:
        self._writers, self._readers, self._closing = writers, readers, None

    async def write(self, work: Callable[[Connection], T]) -> T:
        writers = self._writers
        async with self._one_by_one:
            return await self._run(writers, work)

    async def look(self, work: Callable[[Connection], T]) -> T:
        return await self.write(work)

    async def change(
        self, work: Callable[[Connection], T], entries: Sequence[tuple[str, str]]
    ) -> T:
        """In a store with one owner no other node needs to know of the change."""
        return await self.write(work)

    def next_epochs(self, connection: Connection, units: Sequence[Unit]) -> tuple[int, ...]:
        return ()

    def owns(self, connection: Connection, owned: OwnedUnit) -> bool:
        """A store with one owner owns all units."""
        return True

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._readers, work)

    async def append(self, advances: Sequence[Advance], rows: BatchRows) -> None:
        """The append of a database that is only read. (Others do not take their turn among the
        calls of `write`, because every commit of every client waits for an append.)"""
        raise LogUnavailable(f"{self._where}: open for reading")

    async def _run(
        self,
        transactions: Runner | None,
        work: Callable[[Connection], T],
        *,
        single: bool = False,
    ) -> T:
        if transactions is None:
            raise LogUnavailable(f"{self._where}: not open")
        try:
            return await transactions.run(work, single=single)
        except self._errors.failures as error:
            raise self._errors.log_error(error) from error

    async def lost(self) -> str:
        """Never returns: a lock that the system keeps cannot be lost."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    def acknowledged(self, log_id: int, next_offset: int) -> None:
        """Does nothing. A database whose files can be lost without an error must remember
        appends."""

    def forget(self) -> None:
        """Does nothing, see `acknowledged`."""

    async def close(self) -> None:
        """Refuses new transactions, waits for those under way and closes the connections, even if
        the caller is cancelled. It may be called twice, and `start` may be called again
        afterwards."""
        if self._closing is None:
            readers, self._readers = self._readers, None
            writers, self._writers = self._writers, None
            if readers is None or writers is None:
                return
            closing = self._close(writers, readers)
            self._closing = asyncio.get_running_loop().create_task(closing)
        await asyncio.shield(self._closing)

    async def _close(self, writers: Runner, readers: Runner) -> None:
        # Readers are closed first: SQLite tidies up when its last connection closes, which must be
        # able to write.
        await readers.close()
        async with self._one_by_one:
            await writers.close()
        self._closed()

    def _closed(self) -> None:
        """Called when all connections are closed."""


class ReadingBackend(DatabaseBackend):
    """Reads a database that another process may be writing. It takes no lock, creates nothing and
    migrates nothing. See `storage.reader`."""

    def __init__(
        self, where: str, errors: DatabaseErrors, connect: Connect, is_dead: IsDead | None = None
    ) -> None:
        super().__init__(where, errors)
        self._connect = connect
        self._is_dead = is_dead

    async def start(self) -> None:
        """Connects and checks the schema version. Raises StoreRefused."""
        # The connection for writing is one for reading, too: the database refuses to write.
        readers, writers = (Transactions(self._connect, 1, self._is_dead) for _ in range(2))
        await self._prepare(readers, lambda connection: check_readable(connection, self._where))
        self._open(writers, readers)
