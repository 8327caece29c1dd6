"""Transactions on the event loop: cancellation, order, the end of connections and threads."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from sqlalchemy import Connection, text

from groupd.storage.log import Append, LogFenced, LogUnavailable, Store, StoreRefused
from groupd.storage.open import create_store
from groupd.storage.sql import SqlStore
from groupd.storage.sqlite_connections import WRITER_THREAD, SqliteWriter

LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


def batch(name: str, base: int, payload: bytes = b"") -> Append:
    return Append(name, 1, base, base, base, payload)


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "groupd" in thread.name]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "groupd.sqlite"


@pytest.fixture
async def store(database: Path) -> AsyncIterator[Store]:
    store = create_store(None, database.parent)
    await store.start()
    yield store
    await store.close()


class Held:
    """Stops appends between their two statements, in the thread, until `release`."""

    def __init__(self, store: Store) -> None:
        assert isinstance(store, SqlStore)
        self._backend = store._backend
        self._inside = threading.Event()
        self._go_on = threading.Event()

    async def __aenter__(self) -> Held:
        def hold() -> int:
            self._inside.set()
            return int(self._go_on.wait(30))

        def trap(connection: Connection) -> None:
            driver: Any = connection.connection.dbapi_connection
            driver.create_function("hold", 0, hold)
            connection.execute(
                text("CREATE TEMP TRIGGER held BEFORE INSERT ON log_batch BEGIN SELECT hold(); END")
            )

        await self._backend.write(trap)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release()

    async def inside(self) -> None:
        assert await asyncio.to_thread(self._inside.wait, 30)

    def release(self) -> None:
        self._go_on.set()


# Reads and writes side by side


async def test_reads_do_not_wait_for_a_writer(store: Store) -> None:
    await store.open("a")
    await store.append([batch("a", 0)])
    async with Held(store) as held:
        append = asyncio.create_task(store.append([batch("a", 1)]))
        await held.inside()
        assert len(await store.read("a", 0, 100)) == 1
        assert await store.log_sizes() == {"a": 0}
        assert not append.done()
    await append
    assert len(await store.read("a", 0, 100)) == 2


async def test_a_write_makes_one_trip_to_the_thread(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.open_many(["a", "b"])
    await store.append([batch("a", 0), batch("b", 0)])
    await store.read("a", 0, 100)
    trips: list[str] = []
    run = SqliteWriter.run

    async def counted(self: SqliteWriter, work: Callable[..., Any], *, single: bool = False) -> Any:
        trips.append(self._thread.name)
        return await run(self, work, single=single)

    monkeypatch.setattr(SqliteWriter, "run", counted)
    await store.append([batch("a", 1), batch("b", 1), batch("a", 2)])
    assert len(await store.read("a", 0, 100)) == 3
    assert trips == [WRITER_THREAD]


async def test_a_transaction_is_one_transaction(store: Store) -> None:
    await store.open_many(["a", "b"])
    assert isinstance(store, SqlStore)
    states: list[bool] = []

    def work(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        for statement in ("SELECT 1", "UPDATE log SET next_offset = 9", "SELECT * FROM log"):
            connection.execute(text(statement))
            states.append(driver.in_transaction)
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            await store._backend.write(work)
    assert states == [True] * 6
    await store.append([batch("a", 0)])


# Cancellation


async def test_cancelled_appends_are_whole_or_nothing(store: Store) -> None:
    names = [f"log-{number}" for number in range(10)]
    await store.open_many(names)
    end = 0
    for round_ in range(30):
        append = asyncio.create_task(store.append([batch(name, end) for name in names]))
        for _ in range(round_ % 3):
            await asyncio.sleep(0)
        append.cancel()
        await asyncio.gather(append, return_exceptions=True)
        # The store goes on; what the cancelled append did shows in all logs or in none.
        ends = {state.next_offset for state in (await store.open_many(names)).values()}
        assert len(ends) == 1
        assert ends <= {end, end + 1}
        (end,) = ends
        await store.delete(names)
        await store.open_many(names)
        end = 0


async def test_append_cancelled_in_the_middle_goes_on(store: Store) -> None:
    await store.open_many(["a", "b"])
    async with Held(store) as held:
        append = asyncio.create_task(store.append([batch("a", 0), batch("b", 0)]))
        await held.inside()
        append.cancel()
        with pytest.raises(asyncio.CancelledError):
            await append
        next_append = asyncio.create_task(store.append([batch("a", 1)]))
        await asyncio.sleep(0)
        assert not next_append.done()
    await next_append
    assert [len(await store.read(name, 0, 100)) for name in ("a", "b")] == [2, 1]


async def test_append_cancelled_while_it_waits_never_starts(store: Store) -> None:
    await store.open("a")
    async with Held(store) as held:
        first = asyncio.create_task(store.append([batch("a", 0)]))
        await held.inside()
        second = asyncio.create_task(store.append([batch("a", 1)]))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
    await first
    await store.append([batch("a", 1, b"another")])
    assert [found.payload for found in await store.read("a", 0, 100)] == [b"", b"another"]


@pytest.mark.parametrize("rounds", range(8))
async def test_every_task_is_cancelled_as_at_the_end_of_a_loop(store: Store, rounds: int) -> None:
    await store.open_many(["a", "b"])
    before = asyncio.all_tasks()
    append = asyncio.create_task(store.append([batch("a", 0), batch("b", 0)]))
    for _ in range(rounds):
        await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - before
    for task in tasks:
        task.cancel()
    await asyncio.gather(append, *tasks, return_exceptions=True)
    states = await store.open_many(["a", "b"])
    (end,) = {state.next_offset for state in states.values()}
    await store.append([Append("a", 2, end, end, 0, b""), Append("b", 2, end, end, 0, b"")])
    assert len(await store.read("a", 0, 100)) == end + 1


async def test_every_task_is_cancelled_in_the_middle(store: Store) -> None:
    await store.open_many(["a", "b"])
    before = asyncio.all_tasks()
    async with Held(store) as held:
        append = asyncio.create_task(store.append([batch("a", 0), batch("b", 0)]))
        await held.inside()
        tasks = asyncio.all_tasks() - before
        for task in tasks:
            task.cancel()
    await asyncio.gather(append, *tasks, return_exceptions=True)
    assert append.cancelled()
    # What the thread has begun it ends, and the next one is not disturbed.
    await store.append([batch("a", 1), batch("b", 1)])
    with pytest.raises(LogFenced):
        await store.append([batch("a", 1)])


async def test_a_connection_that_is_lost_is_replaced(store: Store) -> None:
    await store.open("a")
    assert isinstance(store, SqlStore)

    def lose(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        connection.execute(text("UPDATE log SET next_offset = 99"))
        driver.close()
        connection.execute(text("SELECT 1"))

    for run in (store._backend.write, store._backend.write):
        with pytest.raises(LogUnavailable, match="closed"):
            await run(lose)
    await store.append([batch("a", 0)])
    assert len(await store.read("a", 0, 100)) == 1


async def test_a_failed_append_fails_alone_and_the_next_gets_another_connection(
    store: Store,
) -> None:
    await store.open("a")
    assert isinstance(store, SqlStore)

    def break_appends(connection: Connection) -> None:
        connection.execute(
            text(
                "CREATE TEMP TRIGGER broken BEFORE INSERT ON log_batch "
                "BEGIN SELECT RAISE(ABORT, 'broken'); END"
            )
        )

    await store._backend.write(break_appends)
    with pytest.raises(LogUnavailable, match="broken"):
        await store.append([batch("a", 0)])
    # The trigger belongs to the connection that has failed.
    await store.append([batch("a", 0)])
    assert len(await store.read("a", 0, 100)) == 1
    assert our_threads().count("groupd-sqlite-writer") == 1


async def test_a_fenced_append_leaves_nothing_and_no_transaction(store: Store) -> None:
    await store.open_many(["a", "b"])
    for _ in range(2):
        with pytest.raises(LogFenced) as fenced:
            await store.append([batch("a", 0), batch("b", 7)])
        assert fenced.value.logs == ("b",)
    assert await store.read("a", 0, 100) == []
    await store.append([batch("a", 0), batch("b", 0)])


# The end


async def test_close_ends_the_threads_and_waits_for_appends(database: Path) -> None:
    store = create_store(None, database.parent)
    await store.start()
    await store.open("a")
    appends = [asyncio.create_task(store.append([batch("a", base)])) for base in range(10)]
    reads = [asyncio.create_task(store.read("a", 0, 100)) for _ in range(5)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*appends, *reads)
    assert our_threads() == []
    assert not database.with_name("groupd.sqlite-wal").exists()
    await store.start()
    assert len(await store.read("a", 0, 100)) == 10
    await store.close()


async def test_close_waits_for_what_is_under_way(database: Path) -> None:
    store = create_store(None, database.parent)
    await store.start()
    await store.open("a")
    async with Held(store) as held:
        append = asyncio.create_task(store.append([batch("a", 0)]))
        await held.inside()
        cancelled = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(LogUnavailable, match="not open"):
            await store.append([batch("a", 1)])
        closes = [asyncio.create_task(store.close()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not append.done()
        assert not any(close.done() for close in closes)
    await asyncio.gather(append, *closes)
    await store.close()
    assert our_threads() == []
    await store.start()
    assert len(await store.read("a", 0, 100)) == 1
    await store.close()


@LOOPS
def test_loops_after_one_another(
    database: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    store = create_store(None, database.parent)

    async def main() -> int:
        await store.start()
        end = (await store.open("a")).next_offset
        epoch = (await store.open("a")).owner_epoch
        await asyncio.gather(
            *[store.append([Append("a", epoch, end + n, end + n, 0, b"")]) for n in range(5)]
        )
        found = await asyncio.gather(*[store.read("a", 0, 100) for _ in range(5)])
        await store.close()
        return len(found[0])

    for expected in (5, 10, 15):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(main()) == expected
        assert our_threads() == []


@LOOPS
def test_a_failed_start_leaves_no_thread_behind(
    database: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    database.mkdir(parents=True)
    for _ in range(20):
        store = create_store(None, database.parent)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            with pytest.raises(StoreRefused, match="cannot be opened"):
                runner.run(store.start())
            assert our_threads() == []


_NEVER_CLOSED = """
import asyncio, sys, uvloop
from groupd.storage.log import Append
from groupd.storage.open import create_store

async def main():
    store = create_store(None, sys.argv[1])
    await store.start()
    await store.open("a")
    await store.append([Append("a", 1, 0, 0, 0, b"")])
    await store.read("a", 0, 100)
    asyncio.ensure_future(store.append([Append("a", 1, 1, 1, 0, b"")]))
    await asyncio.sleep(0)

with asyncio.Runner(loop_factory=getattr(sys.modules[sys.argv[2]], "new_event_loop")) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_a_program_that_never_closes_ends(database: Path, loop: str) -> None:
    command = [sys.executable, "-c", _NEVER_CLOSED, str(database.parent), loop]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    store = create_store(None, database.parent)
    await store.start()
    assert (await store.open("a")).next_offset in (1, 2)
    await store.close()
