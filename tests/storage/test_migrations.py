"""From every schema version there ever was to the current one, on both databases.

`schemas/DIALECT-vN.sql` is what version N looks like, with some rows in it; such a file never
changes once its version was released.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Dialect, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from groupd.storage import tables
from groupd.storage.log import LogError, LogState, StoredBatch, StoredTopic
from groupd.storage.migrate import MIGRATIONS, migrate
from groupd.storage.open import create_store
from groupd.storage.sql import SqlStore
from groupd.storage.tables import SCHEMA_VERSION
from tests.support.postgres import PostgresServer

SCHEMAS = Path(__file__).parent / "schemas"
ROWS = "-- Rows\n"
VERSIONS = range(1, SCHEMA_VERSION + 1)
DIALECTS: dict[str, Callable[[], Dialect]] = {
    "sqlite": sqlite.dialect,
    "postgresql": postgresql.dialect,
}
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)

MakeStore = Callable[[str, int | None], SqlStore]


@pytest.fixture
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> MakeStore:
    """A store, not started, on a database of a version; None: an empty one."""

    def make(dialect: str, version: int | None) -> SqlStore:
        script = "" if version is None else file_of(dialect, version).read_text()
        if dialect == "sqlite":
            url = f"sqlite+aiosqlite:///{tmp_path}/{version}.sqlite"
            connection = sqlite3.connect(f"{tmp_path}/{version}.sqlite")
            connection.executescript(script)
            connection.close()
        else:
            server: PostgresServer = request.getfixturevalue("postgres")
            database = server.emptied_database()
            if script:
                server.execute(database, script, "SELECT 1")
            url = server.url(database)
        store = create_store(url, ".")
        assert isinstance(store, SqlStore)
        return store

    return make


def file_of(dialect: str, version: int) -> Path:
    return SCHEMAS / f"{dialect}-v{version}.sql"


def statements(dialect: Dialect) -> str:
    """The current schema, one statement after the other."""
    created: list[Any] = [CreateTable(table) for table in tables.metadata.sorted_tables]
    created += [
        CreateIndex(index) for table in tables.metadata.sorted_tables for index in table.indexes
    ]
    found = [" ".join(str(item.compile(dialect=dialect)).split()) for item in created]
    if dialect.name == "postgresql":
        found += tables.TUNING.values()
    return "".join(f"{statement};\n" for statement in found)


@every_dialect
def test_the_current_schema_is_on_file(dialect: str) -> None:
    file = file_of(dialect, SCHEMA_VERSION)
    assert file.exists(), f"write {file.name}: what `statements` says, `{ROWS}`, some rows"
    assert file.read_text().partition(ROWS)[0] == statements(DIALECTS[dialect]()), (
        "a table has changed: add 1 to SCHEMA_VERSION, the way there to MIGRATIONS, and the files "
        "of the new version; those of released versions stay"
    )


@every_dialect
@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_on_file(dialect: str, version: int) -> None:
    assert f"VALUES (1, {version}, " in file_of(dialect, version).read_text().partition(ROWS)[2]


def test_every_version_has_a_way_to_the_next() -> None:
    assert sorted(MIGRATIONS) == list(range(1, SCHEMA_VERSION))


@every_dialect
@pytest.mark.parametrize("version", VERSIONS)
async def test_what_an_earlier_version_wrote(
    make_store: MakeStore, dialect: str, version: int
) -> None:
    store = make_store(dialect, version)
    await store.start()
    try:
        assert await store.cluster_id() == "kept-from-old-versions"
        assert await store.topics() == [
            StoredTopic(bytes(range(16)), "orders", 3, (("retention.ms", "1000"),))
        ]
        assert await store.configs() == [(32, "billing", "consumer.session.timeout.ms", "46000")]
        assert await store.next_producer_ids(1) == 1000
        acls = [('["User:alice"]', '{"kept": true}')] if version >= 5 else []
        assert await store.security_entries("acl") == acls
        assert await store.open("orders-0") == LogState("orders-0", 4, 1, 3)
        assert await store.read("orders-0", 0, 100) == [
            StoredBatch(0, 1, 1700000000000, b"first"),
            StoredBatch(2, 2, 1700000000001, b"second"),
        ]
        assert (await store.open("new")).owner_epoch == 1
    finally:
        await store.close()
    await store.start()  # and no second time
    await store.close()


def shape(connection: Connection) -> dict[str, Any]:
    """Everything about the tables, except the order of their columns and what those of an added
    column are filled with."""
    inspector = inspect(connection)
    found: dict[str, Any] = {}
    for table in inspector.get_table_names():
        columns = [
            (column["name"], str(column["type"]), column["nullable"])
            for column in inspector.get_columns(table)
        ]
        found[table] = (
            sorted(columns),
            inspector.get_pk_constraint(table)["constrained_columns"],
            sorted(str(index["column_names"]) for index in inspector.get_indexes(table)),
            sorted(
                str(unique["column_names"]) for unique in inspector.get_unique_constraints(table)
            ),
        )
    return found


@every_dialect
async def test_migrated_and_new_databases_are_the_same(make_store: MakeStore, dialect: str) -> None:
    fresh = make_store(dialect, None)
    await fresh.start()
    expected = await fresh._backend.read(shape)
    await fresh.close()
    assert set(expected) == set(tables.metadata.tables)
    for version in VERSIONS:
        store = make_store(dialect, version)
        await store.start()
        assert await store._backend.read(shape) == expected, f"from version {version}"
        await store.close()


@every_dialect
async def test_a_migration_that_fails_leaves_everything_as_it_was(
    make_store: MakeStore, dialect: str
) -> None:
    store = make_store(dialect, None)
    await store.start()

    def half(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE half (id INTEGER)")

    def broken(connection: Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE nothing ADD COLUMN x BIGINT")

    steps = {SCHEMA_VERSION: half, SCHEMA_VERSION + 1: broken}

    with pytest.raises(LogError, match=r"nothing|UndefinedTableError"):
        await store._backend.write(
            lambda connection: migrate(connection, "db", steps, target=SCHEMA_VERSION + 2)
        )
    assert set(await store._backend.read(shape)) == set(tables.metadata.tables)
    await store.close()
    await store.start()
    await store.close()
