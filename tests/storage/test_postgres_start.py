"""Starting on PostgreSQL: every refusal is one line that says how to mend it and keeps secrets."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from groupd.storage import postgres_session
from groupd.storage.log import Store, StoreNotReady, StoreRefused
from groupd.storage.open import create_store
from groupd.storage.tables import SCHEMA_VERSION
from tests.support.postgres import PASSWORD, USER, PostgresServer


async def refusal(store: Store, *, may_come_up: bool = False) -> str:
    """`may_come_up`: a start waits for the server."""
    with pytest.raises(StoreRefused) as caught:
        await store.start()
    assert isinstance(caught.value, StoreNotReady) == may_come_up
    message = str(caught.value)
    assert "\n" not in message
    assert PASSWORD not in message
    assert "secret" not in message
    return message


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.emptied_database()


# The server, the database, the user


async def test_wrong_password(postgres: PostgresServer, database: str) -> None:
    message = await refusal(create_store(postgres.url(database, password="secret"), "."))
    assert f'password authentication failed for user "{USER}": mend the user and' in message
    assert f"postgresql://127.0.0.1:{postgres.port}/{database}: " in message


async def test_unknown_user(postgres: PostgresServer, database: str) -> None:
    message = await refusal(create_store(postgres.url(database, user="stranger"), "."))
    assert 'failed for user "stranger": mend the user and password' in message


async def test_unknown_database(postgres: PostgresServer) -> None:
    message = await refusal(create_store(postgres.url("nowhere"), "."))
    assert 'database "nowhere" does not exist: create it (createdb nowhere)' in message


@pytest.mark.parametrize(
    ("host", "what"),
    [("127.0.0.1:1", "refused|failed"), ("groupd.invalid", "not known|resolution")],
)
async def test_no_server(host: str, what: str) -> None:
    store = create_store(f"postgresql+asyncpg://groupd:secret@{host}/db", ".")
    message = await refusal(store, may_come_up=True)
    assert f"postgresql://{host}/db: cannot be reached (" in message
    assert any(part in message for part in what.split("|"))
    assert "start PostgreSQL, or mend the store URL" in message


async def test_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"postgresql+asyncpg://groupd:secret@127.0.0.1:{port}/db?connect_timeout=1"
        message = await refusal(create_store(url, "."), may_come_up=True)
    assert "cannot be reached (no answer in time)" in message


async def test_tls_that_the_server_does_not_have(postgres: PostgresServer, database: str) -> None:
    message = await refusal(create_store(postgres.url(database) + "?sslmode=require", "."))
    assert "rejected SSL" in message


async def test_too_old_server(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_session, "SERVER_VERSION_MIN", 990_000)
    message = await refusal(create_store(postgres.url(database), "."))
    assert "is too old: groupd needs 99 or newer" in message


async def test_user_without_rights(postgres: PostgresServer, database: str) -> None:
    postgres.execute(
        database, "DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN PASSWORD 'secret'"
    )
    url = postgres.url(database, user="guest", password="secret")
    message = await refusal(create_store(url, "."))
    assert "GRANT ALL ON SCHEMA public" in message
    postgres.execute(database, "GRANT ALL ON SCHEMA public TO guest")
    store = create_store(url, ".")
    await store.start()
    await store.close()
    postgres.execute(database, "DROP OWNED BY guest", "DROP ROLE guest")


async def test_database_that_cannot_be_written(postgres: PostgresServer) -> None:
    name = postgres.new_database()
    postgres.execute(name, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    message = await refusal(create_store(postgres.url(name), "."))
    assert "read-only transaction: give the address of a server that can be written" in message


async def test_database_in_another_encoding(postgres: PostgresServer) -> None:
    postgres.execute("postgres", "DROP DATABASE IF EXISTS ascii")
    postgres.execute("postgres", "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    message = await refusal(create_store(postgres.url("ascii"), "."))
    assert "encoding is SQL_ASCII: create one with --encoding UTF8" in message


async def test_database_of_another_program(postgres: PostgresServer, database: str) -> None:
    postgres.execute(database, "CREATE TABLE photos (id INTEGER)")
    assert "not a groupd database" in await refusal(create_store(postgres.url(database), "."))


async def test_newer_schema_and_a_second_attempt(postgres: PostgresServer, database: str) -> None:
    store = create_store(postgres.url(database), ".")
    await store.start()
    await store.close()
    newer = SCHEMA_VERSION + 1
    postgres.execute(database, f"UPDATE meta SET schema_version = {newer}")
    assert f"schema version {newer} is newer than {SCHEMA_VERSION}" in await refusal(store)
    postgres.execute(database, f"UPDATE meta SET schema_version = {SCHEMA_VERSION}")
    await store.start()
    await store.close()


async def test_a_refused_start_leaves_no_session(postgres: PostgresServer, database: str) -> None:
    postgres.execute(database, "CREATE TABLE photos (id INTEGER)")
    await refusal(create_store(postgres.url(database), "."))
    async with asyncio.timeout(10):  # the server takes a moment to see the end
        while postgres.execute(
            database, "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'groupd %'"
        ):
            await asyncio.sleep(0.01)


# The URL


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("user:sec@ret@host/db", "more than one @"),
        ("user:secret@host", "names no database"),
        ("user:secret@host/", "names no database"),
        ("user:secret@host:port/db", "cannot be understood"),
        ("user:secret@host/db?password=secret", "not known \\(password\\): use connect_timeout"),
        ("user:secret@host/db?pool_size=0", "pool_size=0: write a whole number above 0"),
        ("user:secret@host/db?statement_timeout=1s", "statement_timeout=1s: write a whole"),
    ],
)
def test_urls_that_are_refused(rest: str, message: str) -> None:
    with pytest.raises(StoreRefused, match=message) as caught:
        create_store(f"postgresql+asyncpg://{rest}", ".")
    assert not {"sec", "secret"} & set(str(caught.value).replace("@", " ").split())


async def test_host_as_an_option_and_without_the_driver_in_the_scheme(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGUSER", USER)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    options = f"host=127.0.0.1&port={postgres.port}&ssl=disable&pool_size=1&statement_timeout=500"
    store = create_store(f"postgresql:///{database}?{options}", ".")
    await store.start()
    assert len(await store.cluster_id()) == 22
    await store.open("a")
    assert await store.read("a", 0, 100) == []
    rows = postgres.execute(
        database, "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'groupd %'"
    )
    assert len(rows) == 2
    await store.close()


def test_missing_driver() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from groupd.storage.log import StoreRefused\n"
        "from groupd.storage.open import create_store\n"
        "try: create_store('postgresql+asyncpg://u:secret@h/d', '.')\n"
        "except StoreRefused as refused: print(refused)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "PostgreSQL as a store needs its driver: pip install 'groupd[postgres]'\n"
    )
