"""Transactions on a database, and what every database does with them.

A transaction runs in a task of its own: a caller that is cancelled while it waits for its turn
starts nothing, one that is cancelled later leaves a transaction that runs to its end. Connections
stay open between transactions, which saves the work of opening them. One on which something has
failed is given up at once, without a rollback: its statement may still be under way.

A database brings a way to connect for writing and one for reading (so that reads never queue behind
writes) and says what its errors mean.
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
    """A connection to the database, as SQLAlchemy's AsyncConnection has it."""

    @property
    def invalidated(self) -> bool: ...

    async def run_sync(self, work: Callable[[Connection], T], /) -> T:
        """The result of `work(connection)`, which may wait for the database."""
        ...

    async def invalidate(self) -> None: ...

    async def close(self) -> None: ...


Connect = Callable[[], Awaitable[OpenConnection]]


class DatabaseErrors(Protocol):
    """What failures of one database mean. Messages name the database, without passwords.
    `failures`: what `Transactions.run` raises beside the errors of the work itself."""

    @property
    def failures(self) -> tuple[type[Exception], ...]: ...

    def log_error(self, error: Exception) -> LogError:
        """The error that a failed transaction raises."""
        ...

    def refusal(self, error: Exception) -> StoreRefused:
        """The error that a failed start raises."""
        ...


IsDead = Callable[[OpenConnection], bool]
"""Whether a connection is known to have ended, so that no transaction needs to fail on it."""


class Runner(Protocol):
    """Runs transactions, each as a whole, in the order of the calls. Used from one event loop."""

    async def run(self, work: Callable[[Connection], T], *, single: bool = False) -> T:
        """Runs `work` in a transaction: committed when it returns, rolled back when it raises.
        `single`: it is one statement, which a server commits by itself, without two more trips to
        it; what `work` raises afterwards takes nothing back."""
        ...

    async def close(self) -> None:
        """Waits for every `run` that was called before, then ends the connections."""
        ...


class Transactions:
    """A `Runner` of up to `connections` transactions at a time; any number may wait."""

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
        # Not in the task: one that is cancelled before its first step never gets there.
        self._tasks.discard(task)
        self._turns.release()
        if not task.cancelled():
            task.exception()  # seen here, because the caller may have been cancelled

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
    """One transaction. A connection on which something has failed is invalid afterwards: a
    statement may still be under way."""
    usable = False
    try:
        transaction = connection.begin()
        try:
            result = work(connection)
        except LogError:
            # The work has refused, so no statement is under way.
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
    """`work` is one statement, which is committed by itself."""
    connection.execution_options(isolation_level="AUTOCOMMIT")
    try:
        return transact(connection, work)
    finally:
        if not connection.invalidated:
            usual = connection.default_isolation_level
            connection.execution_options(isolation_level=usual)


class DatabaseBackend:
    """See `storage.sql_logs.Backend`; `start` belongs to the database, which calls `_open`.
    `where` names the database in messages, without passwords."""

    def __init__(self, where: str, errors: DatabaseErrors) -> None:
        self._where = where
        self._errors = errors
        self._writers: Runner | None = None
        self._readers: Runner | None = None
        self._one_by_one = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    async def _prepare(self, transactions: Runner, work: Callable[[Connection], T]) -> T:
        """Runs the first transaction of all. Raises StoreRefused; whatever it raises,
        `transactions` is closed then."""
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
        """See `storage.sql_logs.Backend`."""
        return await self.write(work)

    async def change(
        self, work: Callable[[Connection], T], entries: Sequence[tuple[str, str]]
    ) -> T:
        """See `storage.sql_logs.Backend`; where a store has one owner nobody needs to be told."""
        return await self.write(work)

    def next_epochs(self, connection: Connection, units: Sequence[Unit]) -> tuple[int, ...]:
        """See `storage.sql_logs.Backend`."""
        return ()

    def owns(self, connection: Connection, owned: OwnedUnit) -> bool:
        """See `storage.sql_logs.Backend`; a store with one owner is all its own."""
        return True

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._run(self._readers, work)

    async def append(self, advances: Sequence[Advance], rows: BatchRows) -> None:
        """See `storage.sql_logs.Backend`; this is for a database that is only read. It does not
        wait for the turns of `write`: every commit of every client waits for it."""
        raise LogUnavailable(f"{self._where}: open for reading")

    async def _run(
        self,
        transactions: Runner | None,
        work: Callable[[Connection], T],
        *,
        single: bool = False,
    ) -> T:
        """`single`: see `Runner.run`."""
        if transactions is None:
            raise LogUnavailable(f"{self._where}: not open")
        try:
            return await transactions.run(work, single=single)
        except self._errors.failures as error:
            raise self._errors.log_error(error) from error

    async def lost(self) -> str:
        """Never returns: a lock that the system keeps is not lost."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    def acknowledged(self, log_id: int, next_offset: int) -> None:
        """Only a database whose files could be lost without an error has to remember."""

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

    async def _close(self, writers: Runner, readers: Runner) -> None:
        # Readers first: SQLite tidies up when its last connection, a writing one, goes.
        await readers.close()
        async with self._one_by_one:
            await writers.close()
        self._closed()

    def _closed(self) -> None:
        """What a database does when its connections have ended."""


class ReadingBackend(DatabaseBackend):
    """Reads a database that another process may be writing: takes no lock, creates nothing,
    migrates nothing. See `storage.reader`."""

    def __init__(
        self, where: str, errors: DatabaseErrors, connect: Connect, is_dead: IsDead | None = None
    ) -> None:
        super().__init__(where, errors)
        self._connect = connect
        self._is_dead = is_dead

    async def start(self) -> None:
        """Raises StoreRefused."""
        # A connection for writing cannot write either: the database refuses.
        readers, writers = (Transactions(self._connect, 1, self._is_dead) for _ in range(2))
        await self._prepare(readers, lambda connection: check_readable(connection, self._where))
        self._open(writers, readers)
