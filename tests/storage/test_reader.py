"""Reading a store beside its owner and without one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from groupd.storage.log import Append, StoreRefused
from groupd.storage.open import DATABASE_FILE, create_reader, create_store


async def fill(data_dir: Path, *, close: bool = True) -> None:
    store = create_store(None, data_dir)
    await store.start()
    for name in ("b", "a"):
        state = await store.open(name)
        await store.append([Append(name, state.owner_epoch, 0, 4, 7, name.encode())])
    if close:
        await store.close()


async def test_it_reads_beside_the_owner_and_sees_what_the_owner_adds(tmp_path: Path) -> None:
    owner = create_store(None, tmp_path)
    await owner.start()
    state = await owner.open("log")
    await owner.append([Append("log", state.owner_epoch, 0, 1, 5, b"one")])
    reader = create_reader(None, tmp_path)
    await reader.start()
    try:
        assert [b.payload for b in await reader.read("log", 0, 1000)] == [b"one"]
        await owner.append([Append("log", state.owner_epoch, 2, 2, 6, b"two")])
        (extent,) = await reader.states()
        assert (extent.name, extent.start_offset, extent.next_offset) == ("log", 0, 3)
        assert [b.payload for b in await reader.read("log", 2, 1000)] == [b"two"]
        assert await reader.cluster_id() == await owner.cluster_id()
        # Nobody was fenced.
        await owner.append([Append("log", state.owner_epoch, 3, 3, 7, b"three")])
    finally:
        await reader.close()
        await owner.close()


async def test_it_reads_a_stopped_store_and_leaves_the_file_alone(tmp_path: Path) -> None:
    await fill(tmp_path)
    before = (tmp_path / DATABASE_FILE).read_bytes()
    reader = create_reader(f"sqlite+aiosqlite:///{tmp_path / DATABASE_FILE}", "elsewhere")
    await reader.start()
    assert [log.name for log in await reader.states()] == ["a", "b"]
    assert await reader.read("c", 0, 1000) == []
    assert await reader.topics() == []
    await reader.close()
    assert (tmp_path / DATABASE_FILE).read_bytes() == before


async def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="memory"):
        create_reader("memory://", tmp_path)
    with pytest.raises(StoreRefused, match="no such store"):
        await create_reader(None, tmp_path).start()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / DATABASE_FILE).write_bytes(b"no database" * 100)
    with pytest.raises(StoreRefused, match="damaged"):
        await create_reader(None, tmp_path).start()


@pytest.mark.parametrize(("change", "said"), [("+ 1", "newer"), ("- 1", "older")])
async def test_another_schema_is_refused(tmp_path: Path, change: str, said: str) -> None:
    await fill(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
        connection.execute(f"UPDATE meta SET schema_version = schema_version {change}")
    with pytest.raises(StoreRefused, match=said):
        await create_reader(None, tmp_path).start()


async def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
    with pytest.raises(StoreRefused, match="not a groupd database"):
        await create_reader(None, tmp_path).start()
