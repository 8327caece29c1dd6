"""What only a file can go through: damage, locks, a full disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from groupd.storage import batches, sql_logs
from groupd.storage.log import Append, LogCorrupt, LogFenced, LogUnavailable, Store
from groupd.storage.open import create_store


def batch(name: str, base: int, payload: bytes = b"") -> Append:
    return Append(name, 1, base, base, base, payload)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "groupd.sqlite"


@pytest.fixture
async def store(database: Path) -> AsyncIterator[Store]:
    store = create_store(None, database.parent)
    await store.start()
    yield store
    await store.close()


def tamper(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute(statement)
    connection.commit()
    connection.close()


async def test_what_was_called_before_the_end_is_carried_out(store: Store, database: Path) -> None:
    calls = [asyncio.create_task(store.open(f"log-{i}")) for i in range(5)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*calls)
    again = create_store(None, database.parent)
    await again.start()
    assert (await again.open("log-4")).owner_epoch == 2
    await again.close()


# Damage


async def test_damaged_payload_byte(store: Store, database: Path) -> None:
    await store.open_many(["a", "b"])
    await store.append([batch("a", 0, b"fine"), batch("b", 0), batch("a", 1, b"PRECIOUS BYTES")])
    await store.close()
    content = database.read_bytes()
    assert content.count(b"PRECIOUS") == 1
    database.write_bytes(content.replace(b"PRECIOUS", b"PRECIOU5"))
    store = create_store(None, database.parent)
    await store.start()
    try:
        assert len(await store.read("a", 0, 4)) == 1
        with pytest.raises(LogCorrupt, match="log a: the batch at offset 1 "):
            await store.read("a", 0, 100)
        with pytest.raises(LogCorrupt, match="log a: the batch at offset 1 "):
            await store.with_max_timestamp("a")
        with pytest.raises(LogCorrupt):
            await store.first_at_or_after("a", 1)
        assert len(await store.read("b", 0, 100)) == 1
    finally:
        await store.close()


@pytest.mark.parametrize("missing", [0, 1, 2])
async def test_missing_rows(store: Store, database: Path, missing: int) -> None:
    await store.open("a")
    await store.append([batch("a", base) for base in range(3)])
    tamper(database, f"DELETE FROM log_batch WHERE base_offset = {missing}")
    with pytest.raises(LogCorrupt, match=f"log a: the batch at offset {missing} is missing"):
        await store.read("a", 0, 100)


async def test_row_that_moved_to_another_log(store: Store, database: Path) -> None:
    await store.open_many(["a", "b"])
    await store.append([batch("a", 0, b"x")])
    await store.append([batch("b", 0, b"y")])
    tamper(database, "UPDATE log_batch SET log_id = 3 - log_id")
    with pytest.raises(LogCorrupt, match="log a: the batch at offset 0 "):
        await store.read("a", 0, 100)


# Failures


async def test_database_locked_by_another_program(
    store: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.close()
    monkeypatch.setattr("groupd.storage.sqlite_connections._PRAGMAS", ("busy_timeout=1",))
    store = create_store(None, database.parent)
    await store.start()
    await store.open("a")
    intruder = sqlite3.connect(database, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LogUnavailable, match="locked"):
        await store.append([batch("a", 0)])
    assert await store.read("a", 0, 100) == []
    intruder.execute("ROLLBACK")
    intruder.close()
    await store.append([batch("a", 0)])
    await store.close()


async def test_full_disk_and_what_follows(store: Store) -> None:
    await store.open("a")
    assert isinstance(store, sql_logs.SqlLogs)
    pages = await store._backend.write(
        lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar()
    )
    await store._backend.write(
        lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").scalar()
    )
    with pytest.raises(LogUnavailable, match="full"):
        await store.append([batch("a", 0, b"small"), batch("a", 1, bytes(100_000))])
    assert await store.read("a", 0, 1) == []
    await store._backend.write(
        lambda connection: connection.exec_driver_sql("PRAGMA max_page_count=100000").scalar()
    )
    await store.append([batch("a", 0, b"small"), batch("a", 1, bytes(100_000))])
    assert len(await store.read("a", 0, 1 << 20)) == 2


async def test_a_driver_that_cannot_count_many_updates(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

    monkeypatch.setattr(SQLiteDialect_pysqlite, "supports_sane_multi_rowcount", False)
    await store.open_many(["a", "b"])
    await store.append([batch("a", 0), batch("b", 0)])
    with pytest.raises(LogFenced, match="b"):
        await store.append([batch("a", 1), batch("b", 0)])
    assert len(await store.read("a", 0, 100)) == 1


async def test_deletion_that_a_crash_cut_short(
    store: Store, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.open_many(["a", "b"])
    await store.append([batch("a", base) for base in range(10)] + [batch("b", 0)])

    async def crash(self: object) -> None:
        raise LogUnavailable("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(sql_logs.SqlLogs, "_drop_deleted", crash)
        with pytest.raises(LogUnavailable):
            await store.delete(["a"])
    assert await store.read("a", 0, 100) == []
    await store.close()
    store = create_store(None, database.parent)
    await store.start()
    await store.close()
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT name FROM log").fetchall() == [("b",)]
    assert connection.execute("SELECT count(*) FROM log_batch").fetchone() == (1,)
    connection.close()


async def test_queries_use_the_index(store: Store) -> None:
    assert isinstance(store, sql_logs.SqlLogs)

    def plans(connection: Connection) -> list[str]:
        found = []
        for query in (batches._SIZES, batches.FIRST_AT_OR_AFTER, batches.WITH_MAX_TIMESTAMP):
            compiled = query.compile(dialect=connection.dialect)
            assert compiled.positiontup is not None
            rows = connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {compiled}", tuple(1 for _ in compiled.positiontup)
            )
            found += [row[3] for row in rows]
        return found

    steps = await store._backend.read(plans)
    assert len([step for step in steps if "log_batch_by_offset (log_id=? AND" in step]) == 3
    assert not [step for step in steps if step.startswith("SCAN")]


async def test_commits_are_synchronous(store: Store) -> None:
    assert isinstance(store, sql_logs.SqlLogs)

    def pragmas(connection: Connection) -> list[object]:
        names = ("synchronous", "journal_mode", "query_only")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    assert await store._backend.write(pragmas) == [2, "wal", 0]
    assert await store._backend.read(pragmas) == [2, "wal", 1]
