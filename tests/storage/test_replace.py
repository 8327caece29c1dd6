"""`replace`: a range of rows swapped in one transaction, in every store."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from groupd.storage.log import (
    Append,
    LogCorrupt,
    LogFenced,
    LogState,
    LogUnavailable,
    Replacement,
    Store,
    StoredBatch,
)
from groupd.storage.memory import MemoryStore
from groupd.storage.open import create_store
from tests.storage.conftest import Disk

EVERYTHING = 1 << 30


@pytest.fixture
def store(disk: Disk) -> Store:
    return disk.store


def row(first: int, last: int, payload: bytes = b"r") -> StoredBatch:
    return StoredBatch(first, last, 7, payload)


def change(first: int, end: int, *rows: StoredBatch, epoch: int = 1, clean: int = 0) -> Replacement:
    return Replacement("a", epoch, first, end, rows, clean or end)


async def filled(store: Store, count: int = 10) -> None:
    """Appends batches of two offsets each."""
    epoch = (await store.open("a")).owner_epoch
    await store.append(
        [Append("a", epoch, 2 * n, 2 * n + 1, n, b"batch %d" % n) for n in range(count)]
    )


async def spans(store: Store, at: int = 0) -> list[tuple[int, int]]:
    return [(r.base_offset, r.last_offset) for r in await store.read("a", at, EVERYTHING)]


async def test_a_range_becomes_one_row_and_the_rest_stays(disk: Disk) -> None:
    store = disk.store
    await filled(store)
    before = await store.read("a", 0, EVERYTHING)
    await store.replace(change(4, 12, row(4, 11)))
    expected = [*before[:2], row(4, 11), *before[6:]]
    assert await store.read("a", 0, EVERYTHING) == expected
    assert await store.read("a", 9, 1) == [row(4, 11)], "the row that covers an offset"
    store = await disk.reopen()
    assert await store.read("a", 0, EVERYTHING) == expected
    assert await store.open("a") == LogState("a", 2, 0, 20, 12)
    await store.append([Append("a", 2, 20, 20, 9, b"next")])
    assert (await spans(store))[-1] == (20, 20)


async def test_rows_may_be_empty_and_may_be_swapped_again(store: Store) -> None:
    await filled(store)
    await store.replace(change(0, 8, row(0, 3), row(4, 7, b"")))
    assert await spans(store) == [(0, 3), (4, 7), *[(n, n + 1) for n in range(8, 20, 2)]]
    await store.replace(change(0, 10, row(0, 9, b"")))
    assert (await store.read("a", 0, EVERYTHING))[0] == row(0, 9, b"")


async def test_a_range_behind_the_end_lengthens_the_log(store: Store) -> None:
    await store.open("a")
    await store.replace(change(0, 100, row(0, 99)))
    await store.replace(change(100, 150, row(100, 149)))
    await store.replace(change(100, 200, row(100, 199)))
    assert await spans(store) == [(0, 99), (100, 199)]
    assert await store.open("a") == LogState("a", 2, 0, 200, 200)


async def test_only_the_owner_replaces(store: Store) -> None:
    await filled(store)
    before = await spans(store)
    for wrong in (
        change(0, 4, row(0, 3), epoch=2),
        change(30, 34, row(30, 33)),
        Replacement("nobody", 1, 0, 4, (row(0, 3),), 4),
    ):
        with pytest.raises(LogFenced):
            await store.replace(wrong)
    await store.open("a")
    with pytest.raises(LogFenced):
        await store.replace(change(0, 4, row(0, 3)))
    assert await spans(store) == before
    assert (await store.open("a")).clean_offset == 0


@pytest.mark.parametrize(("first", "end"), [(1, 4), (0, 5), (3, 7)])
async def test_a_range_that_cuts_a_row_is_refused(store: Store, first: int, end: int) -> None:
    await filled(store)
    before = await spans(store)
    with pytest.raises(ValueError, match="cuts a row"):
        await store.replace(change(first, end, row(first, end - 1)))
    assert await spans(store) == before
    assert (await store.open("a")).clean_offset == 0


@pytest.mark.parametrize("rows", [(), (row(0, 2),), (row(0, 1), row(3, 3)), (row(1, 3),)])
async def test_rows_must_cover_the_range(store: Store, rows: tuple[StoredBatch, ...]) -> None:
    await filled(store)
    with pytest.raises(ValueError, match="row"):
        await store.replace(change(0, 4, *rows))


@pytest.mark.parametrize("applied", [False, True])
async def test_scripted_faults(applied: bool) -> None:
    store = MemoryStore()
    await store.start()
    await filled(store)
    store.fail_next_replace(applied=applied)
    with pytest.raises(LogUnavailable):
        await store.replace(change(0, 4, row(0, 3)))
    assert ((0, 3) in await spans(store)) is applied
    await store.replace(change(4, 8, row(4, 7)))


_WRITER = """
import asyncio, sys
from groupd.storage.log import Append, Replacement, StoredBatch
from groupd.storage.open import create_store

async def main():
    store = create_store(None, sys.argv[1])
    await store.start()
    state = await store.open("a")
    clean, end = state.clean_offset, state.next_offset
    while True:
        batches = [
            Append("a", state.owner_epoch, n, n, n, b"%d," % n) for n in range(end, end + 50)
        ]
        await store.append(batches)
        rows = await store.read("a", clean, 1 << 30)
        payload = b"".join(row.payload for row in rows)
        last = rows[-1].last_offset
        new = (StoredBatch(clean, last, last, payload),)
        await store.replace(Replacement("a", state.owner_epoch, clean, last + 1, new, last + 1))
        clean, end = last + 1, end + 50
        print(clean, flush=True)

asyncio.run(main())
"""


@pytest.mark.crash
async def test_killed_while_replacing(tmp_path: Path) -> None:
    for round_ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        acknowledged = 0
        for _ in range(10 + round_):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        store = create_store(None, tmp_path)
        await store.start()
        state = await store.open("a")
        assert state.clean_offset >= acknowledged
        numbers, at = b"", 0
        while at < state.next_offset:
            rows = await store.read("a", at, EVERYTHING)
            numbers += b"".join(found.payload for found in rows)
            at = rows[-1].last_offset + 1
        assert numbers == b"".join(b"%d," % n for n in range(state.next_offset))
        await store.close()


async def test_a_database_without_clean_offsets_learns_of_them(tmp_path: Path) -> None:
    store = create_store(None, tmp_path)
    await store.start()
    await filled(store)
    rows = await store.read("a", 0, EVERYTHING)
    await store.close()
    engine = create_engine(f"sqlite:///{tmp_path}/groupd.sqlite")
    with engine.begin() as connection:  # as schema 3 was
        connection.execute(text("ALTER TABLE log DROP COLUMN clean_offset"))
        connection.execute(text("ALTER TABLE topic DROP COLUMN first_epochs"))
        for table in ("security_entry", "cluster_node", "cluster_unit", "cluster_state"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("DROP TABLE catalogue_change"))
        connection.execute(text("UPDATE meta SET schema_version = 3"))
    engine.dispose()
    store = create_store(None, tmp_path)
    await store.start()
    assert await store.open("a") == LogState("a", 2, 0, 20, 0)
    assert await store.read("a", 0, EVERYTHING) == rows
    await store.replace(change(0, 8, row(0, 7), epoch=2))
    assert await store.open("a") == LogState("a", 3, 0, 20, 8)
    await store.close()


@pytest.mark.parametrize("column", ["clean_offset", "next_offset"])
async def test_a_damaged_row_of_a_cleaned_log_is_found(tmp_path: Path, column: str) -> None:
    store = create_store(None, tmp_path)
    await store.start()
    await filled(store)
    await store.replace(change(0, 8, row(0, 7)))
    engine = create_engine(f"sqlite:///{tmp_path}/groupd.sqlite")
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE log SET {column} = {column} + 2"))
    engine.dispose()
    for work in (store.replace(change(8, 12, row(8, 11))), store.read("a", 0, 1), store.open("a")):
        with pytest.raises(LogCorrupt):
            await work
    await store.close()
