"""What only a server can do to a store: other owners, lost sessions, restarts, cut commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from groupd.storage import batches, postgres, postgres_session
from groupd.storage.log import (
    Append,
    LogCorrupt,
    LogFenced,
    LogState,
    LogUnavailable,
    LogUncertain,
    StoreRefused,
    StoreTaken,
)
from groupd.storage.open import create_reader, create_store
from groupd.storage.sql import SqlStore
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.proxy import Proxy, When

SESSIONS = "FROM pg_stat_activity WHERE application_name LIKE 'groupd %'"
END_OWNER = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def batch(name: str, base: int, owner_epoch: int = 1, payload: bytes = b"") -> Append:
    return Append(name, owner_epoch, base, base, base, payload)


def new_store(url: str) -> SqlStore:
    store = create_store(url, ".")
    assert isinstance(store, SqlStore)
    return store


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module, which is stopped and started."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> str:
    return server.emptied_database()


@pytest.fixture
async def store(server: PostgresServer, database: str) -> AsyncIterator[SqlStore]:
    store = new_store(server.url(database))
    await store.start()
    yield store
    await store.close()


async def offsets(store: SqlStore, name: str = "a") -> list[int]:
    return [found.base_offset for found in await store.read(name, 0, 1 << 30)]


async def until_waiting(server: PostgresServer, database: str) -> None:
    """Waits until somebody waits for the lock on the database."""
    async with asyncio.timeout(10):
        while not server.execute(database, WAITING):
            await asyncio.sleep(0.01)


async def reopened(store: SqlStore, name: str = "a") -> tuple[int, int]:
    """Opens the log, tried as long as the store is away, as a reload does: (owner epoch, log
    end)."""
    async with asyncio.timeout(20):
        while True:
            try:
                state = await store.open(name)
            except StoreTaken:
                raise
            except LogUnavailable:
                await asyncio.sleep(0.02)
            else:
                return state.owner_epoch, state.next_offset


# Sessions


async def test_commits_are_synchronous_whatever_the_server_does(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    def setting(connection: Connection) -> Any:
        return connection.exec_driver_sql("SHOW synchronous_commit").scalar()

    (row,) = server.execute(database, "SHOW synchronous_commit")
    assert row["synchronous_commit"] == "off"
    assert await store._backend.write(setting) == "on"
    await store.close()
    server.execute(database, "ALTER ROLE groupd SET synchronous_commit = remote_apply")
    try:
        await store.start()
        assert await store._backend.write(setting) == "remote_apply"
    finally:
        server.execute(database, "ALTER ROLE groupd RESET synchronous_commit")


async def test_reads_see_one_state_and_cannot_write(store: SqlStore) -> None:
    def settings(connection: Connection) -> list[Any]:
        names = ("transaction_isolation", "transaction_read_only", "statement_timeout")
        return [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]

    assert await store._backend.read(settings) == ["repeatable read", "on", "10s"]
    assert await store._backend.write(settings) == ["read committed", "off", "10s"]


async def test_sessions_are_few_and_none_stays(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    await store.open("a")
    await asyncio.gather(*[offsets(store) for _ in range(30)])
    assert len(server.execute(database, f"SELECT 1 {SESSIONS}")) == 5
    await store.close()
    async with asyncio.timeout(10):  # the server takes a moment to see the end
        while server.execute(database, f"SELECT 1 {SESSIONS}"):
            await asyncio.sleep(0.01)


async def test_an_append_is_one_statement(store: SqlStore) -> None:
    names = [f"log-{number}" for number in range(50)]
    await store.open_many(names)
    statements: list[str] = []

    def note(_c: object, _k: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        await store.append([batch(name, base) for name in names for base in range(4)])
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert [statement.split()[0] for statement in statements] == ["WITH"]
    assert await offsets(store, "log-49") == [0, 1, 2, 3]


async def test_queries_go_straight_to_the_range_of_the_index(store: SqlStore) -> None:
    """They need no sort and no bitmap, whatever the statistics say: here they know of no row."""
    await store.open("a")
    await store.append([batch("a", base) for base in range(2000)])

    def plans(connection: Connection) -> list[str]:
        found = []
        for query in (
            batches._SIZES,
            batches._RANGE,
            batches.FIRST_AT_OR_AFTER,
        ):
            text = str(query.compile(dialect=connection.dialect))
            for number in range(9, 0, -1):
                text = text.replace(f"${number}::VARCHAR", "'a'").replace(f"${number}::BIGINT", "1")
                text = text.replace(f"${number}::INTEGER", "100")
            rows = connection.exec_driver_sql(f"EXPLAIN {text}")
            found.append("\n".join(row[0] for row in rows))
        return found

    for plan in await store._backend.read(plans):
        assert "using log_batch_by_offset on log_batch" in plan
        assert "Sort" not in plan
        assert "Bitmap" not in plan
        assert "Seq Scan" not in plan


# Fencing


async def test_an_opener_in_another_transaction_fences_an_append_that_waits_for_it(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    await store.open_many(["a", "b"])
    other = await server.connect(database)
    change = other.transaction()
    await change.start()
    await other.execute("UPDATE log SET owner_epoch = owner_epoch + 1 WHERE name = 'a'")
    append = asyncio.create_task(store.append([batch("b", 0), batch("a", 0)]))
    async with asyncio.timeout(10):
        while not await other.fetch("SELECT 1 FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)
    assert not append.done()
    await change.commit()
    with pytest.raises(LogFenced) as caught:
        await append
    assert caught.value.logs == ("a",)
    assert await offsets(store, "b") == []
    await store.append([batch("b", 0), batch("a", 0, owner_epoch=2)])
    await other.close()


async def test_a_row_that_stays_locked_is_unavailable(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "LOCK_TIMEOUT_MS", 50)
    store = new_store(server.url(database))
    await store.start()
    await store.open("a")
    other = await server.connect(database)
    change = other.transaction()
    await change.start()
    await other.execute("SELECT * FROM log FOR UPDATE")
    with pytest.raises(
        LogUnavailable, match=r"the server has refused \(LockNotAvailableError, SQLSTATE 55P03\)"
    ):
        await store.append([batch("a", 0)])
    assert await offsets(store) == []
    await change.rollback()
    await other.close()
    await store.append([batch("a", 0)])
    await store.close()


# Two daemons


async def test_a_second_store_is_refused_and_told_who_is_there(
    store: SqlStore, server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "LOCK_TIMEOUT_MS", 50)
    second = new_store(server.url(database))
    with pytest.raises(StoreRefused, match=r"in use by another groupd \(groupd .* at 127.0.0.1\)"):
        await second.start()
    await store.close()
    await second.start()
    await second.close()


async def test_stores_in_two_schemas_of_one_database(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    server.execute(database, "CREATE SCHEMA other", "ALTER ROLE groupd SET search_path = other")
    try:
        second = new_store(server.url(database))
        await second.start()
        assert await second.cluster_id() != await store.cluster_id()
        await second.close()
    finally:
        server.execute(database, "ALTER ROLE groupd RESET search_path", "DROP SCHEMA other CASCADE")


async def test_who_loses_the_lock_to_another_refuses_for_good(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    await store.open("a")
    await store.append([batch("a", 0)])
    second = new_store(server.url(database))
    starting = asyncio.create_task(second.start())
    await until_waiting(server, database)
    server.execute(database, END_OWNER)
    await starting
    async with asyncio.timeout(20):  # noticed although nothing is asked of the store
        line = await store.lost()
    assert line.endswith("another groupd has taken the database over")
    with pytest.raises(LogFenced) as fenced:
        await store.append([batch("a", 1), batch("a", 2)])
    assert fenced.value.logs == ("a",)
    for attempt in (store.open("a"), store.read("a", 0, 1), store.topics()):
        with pytest.raises(StoreTaken):
            await attempt
    assert await second.open("a") == LogState("a", 2, 0, 1)
    await second.append([batch("a", 1, owner_epoch=2)])
    await second.close()


async def test_who_was_away_while_another_came_and_went_refuses_too(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    await store.open("a")
    # What the other one leaves behind, and a lost session at the same time.
    server.execute(
        database,
        "UPDATE meta SET owner_epoch = owner_epoch + 1",
        END_OWNER,
    )
    async with asyncio.timeout(20):
        await store.lost()
    with pytest.raises(LogFenced):
        await store.append([batch("a", 0)])
    assert server.execute(database, "SELECT 1 FROM log_batch") == []


async def test_a_reader_beside_the_owner(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    await store.open("a")
    await store.append([batch("a", 0, payload=b"one")])
    reader = create_reader(server.url(database), ".")
    await reader.start()
    await store.append([batch("a", 1, payload=b"two")])
    assert [found.payload for found in await reader.read("a", 0, 100)] == [b"one", b"two"]
    assert await reader.states() == [LogState("a", 1, 0, 2)]
    assert await reader.damage() == []
    assert await reader.scan("a", lambda _, rows: [row.intact for row in rows]) == [True, True]
    with pytest.raises(
        LogUnavailable,
        match=r"the server has refused \(ReadOnlySQLTransactionError, SQLSTATE 25006\)",
    ):
        await reader.open("a")
    await reader.close()
    server.execute(database, "UPDATE meta SET schema_version = 1")
    with pytest.raises(StoreRefused, match="schema version 1 is older"):
        await create_reader(server.url(database), ".").start()


# Lost sessions


async def test_a_lost_session_is_replaced_before_anybody_asks(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    await store.open("a")
    await offsets(store)
    server.execute(database, f"SELECT pg_terminate_backend(pid) {SESSIONS}")
    async with asyncio.timeout(10):
        while not server.execute(
            database, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"
        ):
            await asyncio.sleep(0.01)
    await store.append([batch("a", 0)])
    assert await offsets(store) == [0]


async def test_a_stopped_server_and_what_follows(
    store: SqlStore, server: PostgresServer, database: str
) -> None:
    await store.open("a")
    await store.append([batch("a", 0)])
    server.stop()
    for attempt in (store.append([batch("a", 1)]), store.read("a", 0, 1), store.open("a")):
        with pytest.raises(LogUnavailable):
            await attempt
    server.start()
    owner_epoch, end = await reopened(store)
    assert end == 1
    await store.append([batch("a", 1, owner_epoch)])
    assert await offsets(store) == [0, 1]


async def test_a_crashed_server_has_what_was_acknowledged(
    store: SqlStore, server: PostgresServer
) -> None:
    owner_epoch, end = await reopened(store)
    for _ in range(2):
        for base in range(end, end + 20):
            await store.append([batch("a", base, owner_epoch, b"%d" % base)])
        end += 20
        server.kill()
        server.start()
        owner_epoch, found = await reopened(store)
        assert found == end
    assert await offsets(store) == list(range(40))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_append_whose_answer_never_comes(
    server: PostgresServer, database: str, when: When
) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url(database).replace(f":{server.port}/", f":{proxy.port}/")
        store = new_store(url)
        await store.start()
        await store.open_many(["a", "b"])
        # The one message with the rows, which the server executes and commits.
        proxy.cut_at(b"this row", when)
        with pytest.raises(LogUncertain):
            await store.append([batch("a", 0, payload=b"this row"), batch("b", 0)])
        assert proxy.cuts == 1
        owner_epoch, end = await reopened(store)
        assert (await reopened(store, "b"))[1] == end == (1 if when == "after" else 0)
        await store.append([batch("a", end, owner_epoch)])
        await store.close()


async def test_a_network_that_swallows_everything(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "SILENCE_S", 0.2)
    monkeypatch.setattr(postgres.PostgresBackend, "watch_s", 60)
    async with Proxy(server.port) as proxy:
        url = server.url(database).replace(f":{server.port}/", f":{proxy.port}/")
        store = new_store(f"{url}?statement_timeout=300&connect_timeout=1")
        await store.start()
        await store.open("a")
        proxy.freeze()
        with pytest.raises(LogUnavailable):
            await store.append([batch("a", 0)])
        proxy.thaw()
        owner_epoch, end = await reopened(store)
        await store.append([batch("a", end, owner_epoch)])
        await store.close()


async def test_a_session_that_the_server_still_believes_in(
    server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a network that broke without a word, the lock is still held by our own old session."""
    monkeypatch.setattr(postgres_session, "LOCK_TIMEOUT_MS", 200)
    async with Proxy(server.port) as proxy:
        store = new_store(server.url(database).replace(f":{server.port}/", f":{proxy.port}/"))
        await store.start()
        await store.open("a")
        await store.append([batch("a", 0)])
        proxy.abandon()
        owner_epoch, end = await reopened(store)
        assert end == 1
        await store.append([batch("a", 1, owner_epoch)])
        await store.close()


# Cancellation, damage


async def test_cancelled_appends_are_whole_or_nothing(store: SqlStore) -> None:
    names = [f"log-{number}" for number in range(10)]
    states = await store.open_many(names)
    for round_ in range(30):
        epoch = states[names[0]].owner_epoch
        end = states[names[0]].next_offset
        append = asyncio.create_task(store.append([batch(name, end, epoch) for name in names]))
        for _ in range(round_):
            await asyncio.sleep(0)
        append.cancel()
        await asyncio.gather(append, return_exceptions=True)
        states = await store.open_many(names)
        assert {state.next_offset for state in states.values()} in ({end}, {end + 1})


@pytest.mark.parametrize("rounds", [0, 1, 2, 4, 8, 16])
async def test_every_task_is_cancelled_as_at_the_end_of_a_loop(
    store: SqlStore, rounds: int
) -> None:
    await store.open_many(["a", "b"])
    before = asyncio.all_tasks()
    append = asyncio.create_task(store.append([batch("a", 0), batch("b", 0)]))
    for _ in range(rounds):
        await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - before
    for task in tasks:
        task.cancel()
    await asyncio.gather(append, *tasks, return_exceptions=True)
    owner_epoch, end = await reopened(store)
    assert (await reopened(store, "b"))[1] == end
    await store.append([batch("a", end, owner_epoch)])


async def test_damaged_row(store: SqlStore, server: PostgresServer, database: str) -> None:
    await store.open_many(["a", "b"])
    await store.append([batch("a", 0, payload=b"fine"), batch("a", 1, payload=b"PRECIOUS")])
    server.execute(database, "UPDATE log_batch SET payload = 'PRECIOU5' WHERE base_offset = 1")
    assert len(await store.read("a", 0, 4)) == 1
    with pytest.raises(LogCorrupt, match="log a: the batch at offset 1 "):
        await store.read("a", 0, 100)
    server.execute(database, "DELETE FROM log_batch WHERE base_offset = 0")
    with pytest.raises(LogCorrupt, match="log a: the batch at offset 0 is missing"):
        await store.read("a", 0, 100)


async def test_close_waits_for_appends_and_a_start_may_follow(store: SqlStore) -> None:
    await store.open("a")
    appends = [asyncio.create_task(store.append([batch("a", base)])) for base in range(10)]
    reads = [asyncio.create_task(offsets(store)) for _ in range(10)]
    await asyncio.sleep(0)
    closes = [asyncio.create_task(store.close()) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(LogUnavailable, match="not open"):
        await store.append([batch("a", 10)])
    await asyncio.gather(*appends, *reads, *closes)
    await store.start()
    assert await offsets(store) == list(range(10))
