"""PostgreSQL as the backend of `SqlStore`: engines, ownership of the database, its recovery.

One session writes. It holds the lock on the database as long as it lives (`postgres_session`). When
it ends, the next session takes the lock again before it writes. If another process had the database
in between, the owner epoch in `meta` has changed. Then this store is lost for good (`StoreTaken`),
because the memory of its process does not match the logs any more. A task watches the session: it
reacts at once when the session ends, and checks it every few seconds, because an idle daemon must
also notice that it has lost the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import (
    URL,
    AdaptedConnection,
    BigInteger,
    Connection,
    LargeBinary,
    TextClause,
    bindparam,
    event,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from groupd.storage.batches import Advance, BatchRows
from groupd.storage.checksums import end_moved
from groupd.storage.db_transactions import (
    Connect,
    DatabaseBackend,
    OpenConnection,
    ReadingBackend,
    Runner,
    Transactions,
)
from groupd.storage.log import LogError, LogUnavailable, StoreRefused, StoreTaken
from groupd.storage.migrate import migrate
from groupd.storage.postgres_session import (
    Holder,
    PostgresErrors,
    Session,
    connect,
    end_holder,
    session_errors,
    take_lock,
)
from groupd.storage.postgres_url import PostgresAddress, parse_url
from groupd.storage.sql import SqlStore
from groupd.storage.tables import meta

T = TypeVar("T")

_OWNER = select(meta.c.owner_epoch)


def postgres_store(url: str) -> SqlStore:
    """Returns the store behind `url`, not started. Raises StoreRefused."""
    return SqlStore(PostgresBackend(parse_url(url)))


def postgres_reader(url: str) -> ReadingBackend:
    """Returns the backend of a `StoreReader` on `url`. Raises StoreRefused."""
    address = parse_url(url)
    session = partial(connect, address, writes=False)
    return ReadingBackend(
        address.where, PostgresErrors(address), _connect_reading(session), is_dead
    )


class PostgresBackend(DatabaseBackend):
    """See `storage.sql_logs.Backend`."""

    shares = False
    """Whether several processes use the database at the same time."""

    watch_s = 2.0
    """How often the session for writing is checked."""

    def __init__(self, address: PostgresAddress) -> None:
        super().__init__(address.where, PostgresErrors(address))
        self._address = address
        self._owner_epoch: int | None = None
        self._server_pid = 0
        self._taken = asyncio.Event()
        self._ended = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connects, locks, migrates. Raises StoreRefused; may then be called again."""
        self._owner_epoch = None
        self._taken.clear()
        writers = Transactions(connecting(self._writing_session), 1, is_dead)
        self._owner_epoch = await self._prepare(writers, self._take_over)
        reading = _connect_reading(self._reading_session)
        self._open(writers, Transactions(reading, self._address.readers, is_dead))
        loop = asyncio.get_running_loop()
        self._watching = loop.create_task(self._watch(writers), name="postgres-watch")

    def _take_over(self, connection: Connection) -> int:
        """Migrates the database and takes it over. Returns the new owner epoch."""
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        migrate(connection, self._address.where)
        take = update(meta).values(owner_epoch=meta.c.owner_epoch + 1)
        return int(connection.execute(take.returning(meta.c.owner_epoch)).scalar_one())

    # Sessions -----------------------------------------------------------------------------

    async def _reading_session(self) -> Session:
        return await self._connected(writes=False)

    async def _writing_session(self) -> Session:
        session = await self._connected(writes=True)
        try:
            await self._own(session)
        except BaseException:
            session.terminate()
            raise
        self._server_pid = session.get_server_pid()
        session.add_termination_listener(lambda _: self._ended.set())
        return session

    async def _own(self, session: Session) -> None:
        """Takes the lock. Raises StoreRefused during the start. Later it raises StoreTaken if
        another process has had the database, or LogUnavailable."""
        holder = await take_lock(session, shared=self.shares)
        if self._owner_epoch is None:
            if holder is not None:
                raise StoreRefused(f"{self._where}: {self._in_use(holder)}")
            return
        if await session.fetchval(str(_OWNER)) != self._owner_epoch:
            self._taken.set()
            raise self._taken_error()
        if holder is not None and holder.server_pid == self._server_pid:
            # The holder is our own earlier session, whose connection broke without a word.
            holder = await end_holder(session, holder)
        if holder is not None:
            raise LogUnavailable(f"{self._where}: locked by {holder.name}")

    def _in_use(self, holder: Holder) -> str:
        if holder.shared:
            return (
                f"in use by a cluster ({holder.name}): join it with --cluster, or choose another "
                "database"
            )
        alone = ", which runs without --cluster" if self.shares else ""
        return (
            f"in use by another groupd ({holder.name}){alone}: stop it or choose another database"
        )

    async def _connected(self, *, writes: bool) -> Session:
        try:
            return await connect(self._address, writes=writes, shared=self.shares)
        except StoreRefused as refused:
            if self._owner_epoch is None:
                raise
            # For a while the server cannot be a store; usually it is a standby then.
            raise LogUnavailable(str(refused)) from refused

    def _taken_error(self) -> StoreTaken:
        return StoreTaken(f"{self._where}: another groupd has taken the database over")

    async def _watch(self, writers: Transactions) -> None:
        """Keeps a session that holds the lock, until the store is closed or taken over."""
        while not self._taken.is_set():
            try:
                async with asyncio.timeout(self.watch_s):
                    await self._ended.wait()
            except TimeoutError:
                pass
            self._ended.clear()
            with suppress(LogError):  # the next write fails with the reason
                await self._run(writers, lambda connection: connection.scalar(_OWNER))

    # Transactions -------------------------------------------------------------------------

    async def append(self, advances: Sequence[Advance], rows: BatchRows) -> None:
        def work(connection: Connection) -> None:
            append_rows(connection, advances, rows)

        await self._run(self._writers, work, single=True)

    async def _run(
        self,
        transactions: Runner | None,
        work: Callable[[Connection], T],
        *,
        single: bool = False,
    ) -> T:
        if self._taken.is_set() and transactions is not None:
            raise self._taken_error()
        return await super()._run(transactions, work, single=single)

    async def lost(self) -> str:
        await self._taken.wait()
        return str(self._taken_error())

    async def _close(self, writers: Runner, readers: Runner) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        await super()._close(writers, readers)


# Appends ----------------------------------------------------------------------------------------

# An append is one statement, whatever the number of logs and batches. A statement for each row
# would be a trip to the server for each row, and BEGIN and COMMIT would be two more trips. So the
# statement must undo itself if the end or owner of a log is not what its writer expects: then it
# divides by 0, which fails the whole statement. Columns are passed as arrays, so that the statement
# is prepared only once.
_BATCH_COLUMNS = (
    "log_id",
    "base_offset",
    "last_offset",
    "max_timestamp_ms",
    "row_crc",
    "payload",
)
_FENCE = """
        me AS (
            SELECT node_id FROM cluster_node
            WHERE node_id = :node AND incarnation = :incarnation
            FOR KEY SHARE
        ),"""


def _appending(*, fenced: bool) -> TextClause:
    """Returns the statement. `fenced`: it also fails unless the node is a member at its
    incarnation, and keeps it a member until the end of the transaction."""
    statement = text(
        f"""
    WITH {_FENCE if fenced else ""} advanced AS (
        UPDATE log SET next_offset = mine.new_end, row_sum = log.row_sum + mine.difference
        FROM unnest(:of_log, :owner, :expected, :new_end, :difference)
            AS mine (log_id, owner_epoch, expected, new_end, difference)
        WHERE log.log_id = mine.log_id
            AND log.owner_epoch = mine.owner_epoch
            AND log.next_offset = mine.expected
            AND log.name IS NOT NULL
            {"AND EXISTS (SELECT node_id FROM me)" if fenced else ""}
        RETURNING log.log_id
    )
    INSERT INTO log_batch (log_id, base_offset, last_offset, max_timestamp_ms, row_crc, payload)
    SELECT * FROM unnest(
        :log_id, :base_offset, :last_offset, :max_timestamp_ms, :row_crc, :payload
    )
    WHERE 1 / (SELECT (count(*) = cardinality(:of_log))::int FROM advanced) = 1
    """
    )
    arrays = ("of_log", "owner", "expected", "new_end", "difference", *_BATCH_COLUMNS[:-1])
    return statement.bindparams(
        *(bindparam(name, type_=ARRAY(BigInteger)) for name in arrays),
        bindparam("payload", type_=ARRAY(LargeBinary)),
    )


_APPEND = _appending(fenced=False)
_FENCED_APPEND = _appending(fenced=True)


class Fence(NamedTuple):
    """A member of a cluster, and the incarnation at which it may write."""

    node: int
    incarnation: int


def append_rows(
    connection: Connection, advances: Sequence[Advance], rows: BatchRows, fence: Fence | None = None
) -> None:
    """Executes the statement. It fails with SQLSTATE 22012, which `PostgresErrors` translates to
    LogFenced, if the end or owner of a log is not what its writer expects, or if `fence` is no
    member."""
    connection.execute(
        _APPEND if fence is None else _FENCED_APPEND,
        {
            **({} if fence is None else fence._asdict()),
            "of_log": [advance.log_id for advance in advances],
            "owner": [advance.owner_epoch for advance in advances],
            "expected": [advance.base_offset for advance in advances],
            "new_end": [advance.next_offset for advance in advances],
            "difference": [
                end_moved(advance.log_id, advance.base_offset, advance.next_offset)
                for advance in advances
            ],
            **{name: [row[name] for row in rows] for name in _BATCH_COLUMNS},
        },
    )


# Connections ------------------------------------------------------------------------------------


def connecting(session: Callable[[], Awaitable[Session]], **options: Any) -> Connect:
    async def make_session() -> Session:
        with session_errors():
            return await session()

    engine = create_async_engine(
        # Without credentials, because SQLAlchemy may put the URL into messages.
        URL.create("postgresql+asyncpg"),
        async_creator=make_session,
        # `Transactions` keeps the connections, and each transaction ends with its `run`.
        poolclass=NullPool,
        pool_reset_on_return=None,
        # Keep values out of error texts: they are what clients store, such as users' keys.
        hide_parameters=True,
        **options,
    )
    event.listen(engine.sync_engine, "invalidate", _end)

    async def connect() -> AsyncConnection:
        return await engine.connect()

    return connect


def _end(connection: AdaptedConnection, *_: object) -> None:
    """Ends a session that is given up, without telling the server: SQLAlchemy would wait for its
    statement, and then for the server's goodbye."""
    session: Session = connection.driver_connection
    session.terminate()


def _connect_reading(session: Callable[[], Awaitable[Session]]) -> Connect:
    # With this isolation all queries of a transaction see the same state.
    return connecting(session, isolation_level="REPEATABLE READ")


def is_dead(connection: OpenConnection) -> bool:
    sync = cast(AsyncConnection, connection).sync_connection
    session: Session | None = None if sync is None else sync.connection.driver_connection
    return session is None or session.is_closed()
