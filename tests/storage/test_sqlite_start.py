"""Starting on files: locks, foreign, damaged and newer databases, migration."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text

from groupd.storage.log import Store, StoreRefused
from groupd.storage.migrate import migrate
from groupd.storage.open import create_store
from groupd.storage.tables import SCHEMA_VERSION


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "data" / "groupd.sqlite"


@pytest.fixture
async def store(database: Path) -> AsyncIterator[Store]:
    store = create_store(None, database.parent)
    await store.start()
    yield store
    await store.close()


async def refusal(store: Store) -> str:
    with pytest.raises(StoreRefused) as caught:
        await store.start()
    message = str(caught.value)
    assert "\n" not in message
    return message


def tamper(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute(statement)
    connection.commit()
    connection.close()


# Opening


async def test_second_daemon_is_refused(store: Store, database: Path) -> None:
    second = create_store(None, database.parent)
    message = await refusal(second)
    assert f"in use by another groupd (process {os.getpid()})" in message
    await store.close()
    await second.start()
    await second.close()


async def test_two_files_in_one_directory(store: Store, database: Path) -> None:
    other = create_store(f"sqlite+aiosqlite:///{database.parent}/worker-2.sqlite", "unused")
    await other.start()
    assert await other.cluster_id() != await store.cluster_id()
    await other.close()


async def test_garbage_file(database: Path) -> None:
    database.parent.mkdir()
    database.write_bytes(b"these are not the bytes of a database" * 200)
    message = await refusal(create_store(None, database.parent))
    assert str(database) in message
    assert "no SQLite database" in message


async def test_database_of_another_program(database: Path) -> None:
    database.parent.mkdir()
    tamper(database, "CREATE TABLE photos (id INTEGER)")
    message = await refusal(create_store(None, database.parent))
    assert "not a groupd database" in message


async def test_refused_start_lets_go_of_everything(store: Store, database: Path) -> None:
    await store.close()
    tamper(database, f"UPDATE meta SET schema_version = {SCHEMA_VERSION + 1}")
    again = create_store(None, database.parent)
    message = await refusal(again)
    assert f"schema version {SCHEMA_VERSION + 1} is newer" in message
    assert not [thread for thread in threading.enumerate() if "groupd" in thread.name]
    tamper(database, f"UPDATE meta SET schema_version = {SCHEMA_VERSION}")
    await again.start()
    await again.close()


async def test_damage_found_at_start(store: Store, database: Path) -> None:
    await store.close()
    with database.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)
    assert "damaged" in await refusal(create_store(None, database.parent))


async def test_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = await refusal(create_store(None, tmp_path / "file" / "data"))
    assert "cannot be written" in message


async def test_database_that_is_a_directory(database: Path) -> None:
    database.mkdir(parents=True)
    assert "cannot be opened" in await refusal(create_store(None, database.parent))


_AS_NOBODY = """
import asyncio, os
from groupd.storage.log import StoreRefused
from groupd.storage.open import create_store

store = create_store(None, "data")
if os.geteuid() == 0:  # whom no directory stops
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

async def main():
    try:
        await store.start()
    except StoreRefused as refused:
        print(refused)
    else:
        await store.close()
        print("started")

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", [0o555, 0o777])
def test_unwritable_directory(database: Path, mode: int) -> None:
    database.parent.mkdir()
    database.parent.chmod(mode)
    database.parent.parent.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY],
        # The directories above may be closed to nobody: the data directory is below this one.
        cwd=database.parent.parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unwritable = "data: cannot be written (Permission denied): mend its permissions"
    assert done.stdout.startswith(unwritable) == (mode == 0o555)
    assert database.with_name("groupd.sqlite.lock").exists() == (mode == 0o777)


@pytest.mark.parametrize(
    "url",
    ["mysql://root:secret@host/db", "sqlite+aiosqlite:///", "sqlite+aiosqlite:///:memory:", "x"],
)
def test_unknown_urls(url: str) -> None:
    with pytest.raises(StoreRefused, match="unknown store") as caught:
        create_store(url, ".")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["sqlite+aiosqlite:///", "sqlite:///"])
async def test_relative_and_absolute_urls(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("here.db", f"{tmp_path}/there.db"):
        store = create_store(prefix + path, "unused")
        await store.start()
        await store.close()
        assert Path(path).exists()
    assert not Path("unused").exists()


# Schema


def test_migration_from_an_older_version(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/old.db")
    seen: list[int] = []

    def step(version: int) -> Callable[[Connection], None]:
        def change(connection: Connection) -> None:
            seen.append(version)
            connection.execute(text(f"CREATE TABLE made_by_{version} (id INTEGER)"))

        return change

    def version(connection: Connection) -> int | None:
        return connection.scalar(text("SELECT schema_version FROM meta"))

    with engine.begin() as connection:
        migrate(connection, "old.db", target=0)
        assert version(connection) == 0
    steps = {0: step(0), 1: step(1)}
    with engine.begin() as connection:
        migrate(connection, "old.db", steps, target=2)
        assert version(connection) == 2
    with engine.begin() as connection:
        migrate(connection, "old.db", steps, target=2)
        with pytest.raises(StoreRefused, match="newer than 1"):
            migrate(connection, "old.db", steps, target=1)
        with pytest.raises(StoreRefused, match="too old"):
            migrate(connection, "old.db", steps, target=3)
    assert seen == [0, 1]
    engine.dispose()


def test_what_a_store_on_sqlite_needs_is_all_that_is_loaded() -> None:
    """A daemon's start would be a fifth longer with the rest of SQLAlchemy."""
    loaded = (
        "import groupd.storage.sqlite, sys\n"
        "heavy = ('sqlalchemy.orm', 'sqlalchemy.ext.asyncio', 'sqlalchemy.dialects.postgresql')\n"
        "sys.exit(any(name in sys.modules for name in heavy))"
    )
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0


def test_the_first_reader_is_loaded_beside_the_loop(tmp_path: Path) -> None:
    """Its imports take 80 ms, in which no request would be answered."""
    code = (
        "import asyncio, sys, threading\n"
        "from pathlib import Path\n"
        "from groupd.storage.sqlite_connections import sqlite_readers\n"
        "class Watch:\n"
        "    threads = {}\n"
        "    def find_spec(self, name, *_):\n"
        "        self.threads[name] = threading.current_thread()\n"
        "async def read():\n"
        "    await (await sqlite_readers(Path(sys.argv[1]))()).close()\n"
        "sys.meta_path.insert(0, Watch())\n"
        "asyncio.run(read())\n"
        "print(Watch.threads['sqlalchemy.ext.asyncio'] is threading.main_thread())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "some.sqlite")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout.split() == ["False"]
