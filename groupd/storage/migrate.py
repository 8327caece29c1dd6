"""Migrates a database to the schema of this version, in the caller's transaction.

`MIGRATIONS[n]` changes version n into n + 1. An empty database gets the newest version. A database
that is newer than this version of groupd is refused, because its contents might be misunderstood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    insert,
    inspect,
    select,
    text,
    update,
)

from groupd.storage import tables
from groupd.storage.checksums import log_sum, row_crc
from groupd.storage.log import StoreRefused, new_cluster_id

SchemaMigration = Callable[[Connection], None]


def statements(*sql: str) -> SchemaMigration:
    """A migration by SQL that every database understands."""

    def change(connection: Connection) -> None:
        for statement in sql:
            connection.exec_driver_sql(statement)

    return change


# Everything from here to MIGRATIONS must stay as it is: it names tables and columns as they were at
# that version, not as `tables` names them now.

_CHECKSUM_COLUMNS = (
    ("meta", "row_crc"),
    ("log", "row_sum"),
    ("topic", "row_crc"),
    ("config_override", "row_crc"),
    ("producer_id", "row_crc"),
)

_CHECKED_ROWS = (
    ("meta", ("id",), ("cluster_id",)),
    ("topic", ("topic_id",), ("topic_id", "name", "partitions", "configs")),
    (
        "config_override",
        ("resource_type", "name", "key"),
        ("resource_type", "name", "key", "value"),
    ),
    ("producer_id", ("id",), ("next_id",)),
)
"""Of each table: its name, its key, and the columns that the checksum covers."""


def add_row_checksums(connection: Connection) -> None:
    """Version 1 -> 2: checksums for the rows of all tables but `log_batch`, which had them."""
    for table, column in _CHECKSUM_COLUMNS:
        connection.execute(text(f"ALTER TABLE {table} ADD {column} BIGINT NOT NULL DEFAULT 0"))
    for table, key, covered in _CHECKED_ROWS:
        where = " AND ".join(f"{column} = :{column}" for column in key)
        statement = text(f"UPDATE {table} SET row_crc = :row_crc WHERE {where}")
        for row in connection.execute(text(f"SELECT * FROM {table}")).mappings().all():
            crc = row_crc(*(row[column] for column in covered))
            connection.execute(statement, {**{k: row[k] for k in key}, "row_crc": crc})
    logs = connection.execute(
        text("SELECT log_id, name, owner_epoch, start_offset, next_offset FROM log")
    )
    statement = text("UPDATE log SET row_sum = :row_sum WHERE log_id = :log_id")
    for log in logs.all():
        connection.execute(statement, {"log_id": log[0], "row_sum": log_sum(*log)})


def add_security_entries(connection: Connection) -> None:
    """Version 4 -> 5: a table for ACLs, SCRAM credentials and quotas."""
    Table(
        "security_entry",
        MetaData(),
        Column("kind", String(16), primary_key=True),
        Column("key_hash", LargeBinary(32), primary_key=True),
        Column("entry_key", Text, nullable=False),
        Column("value", Text, nullable=False),
        Column("row_crc", BigInteger, nullable=False),
    ).create(connection)


def add_cluster(connection: Connection) -> None:
    """Version 5 -> 6: tables for the nodes of a cluster."""
    made = MetaData()
    nodes = Table(
        "cluster_node",
        made,
        Column("node_id", Integer, primary_key=True, autoincrement=False),
        Column("incarnation", BigInteger, nullable=False),
        Column("lease_until_ms", BigInteger),
        Column("facts", Text, nullable=False),
        Column("applied", BigInteger, nullable=False, server_default=text("0")),
        Column("draining", Boolean, nullable=False, server_default=false()),
        Column("leaving", Boolean, nullable=False, server_default=false()),
    )
    Index("cluster_node_by_incarnation", nodes.c.node_id, nodes.c.incarnation, unique=True)
    Table(
        "cluster_unit",
        made,
        Column("kind", String(16), primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("owner", Integer),
        Column("incarnation", BigInteger),
        Column("wanted", Integer),
        Column("epoch", BigInteger, nullable=False, server_default=text("0")),
    )
    state = Table(
        "cluster_state",
        made,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("units_version", BigInteger, nullable=False, server_default=text("0")),
        Column("catalogue_version", BigInteger, nullable=False, server_default=text("0")),
        Column("timeline", String(8), nullable=False, server_default=text("''")),
        Column("timeline_since_ms", BigInteger, nullable=False, server_default=text("0")),
        Column("level", Integer, nullable=False, server_default=text("1")),
    )
    Table(
        "catalogue_change",
        made,
        Column("version", BigInteger, primary_key=True, autoincrement=False),
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("kind", String(16), nullable=False),
        Column("entry_key", Text, nullable=False),
    )
    made.create_all(connection, checkfirst=False)
    connection.execute(insert(state).values(id=1))


MIGRATIONS: Mapping[int, SchemaMigration] = {
    1: add_row_checksums,
    2: statements("ALTER TABLE meta ADD COLUMN owner_epoch BIGINT DEFAULT 0 NOT NULL"),
    # A clean offset of 0 adds nothing to the sum of a row.
    3: statements("ALTER TABLE log ADD COLUMN clean_offset BIGINT DEFAULT 0 NOT NULL"),
    4: add_security_entries,
    5: add_cluster,
    # Transactional ids move from one log to many when they are loaded. An older version would not
    # look for them there, so this needs a new schema version.
    6: statements(),
    # Topics from before this version go on to count leader epochs from epoch 0 of their units.
    7: statements("ALTER TABLE topic ADD COLUMN first_epochs TEXT DEFAULT '' NOT NULL"),
}


def migrate(
    connection: Connection,
    where: str,
    migrations: Mapping[int, SchemaMigration] = MIGRATIONS,
    target: int = tables.SCHEMA_VERSION,
) -> None:
    """Migrates to version `target`. `where` names the database in messages. Raises StoreRefused."""
    existing = inspect(connection).get_table_names()
    if not existing:
        tables.metadata.create_all(connection, checkfirst=False)
        cluster_id = new_cluster_id()
        connection.execute(
            insert(tables.meta).values(
                id=1, schema_version=target, cluster_id=cluster_id, row_crc=row_crc(cluster_id)
            )
        )
        connection.execute(insert(tables.cluster_state).values(id=1))
        connection.execute(insert(tables.producer_id).values(id=1, next_id=0, row_crc=row_crc(0)))
        return
    version = _known_version(connection, existing, where, target)
    for step in range(version, target):
        if step not in migrations:
            raise StoreRefused(
                f"{where}: schema version {step} is too old: start an older groupd once to "
                "bring it up to date"
            )
        migrations[step](connection)
        connection.execute(update(tables.meta).values(schema_version=step + 1))


def check_readable(connection: Connection, where: str, target: int = tables.SCHEMA_VERSION) -> None:
    """Checks that the schema is the newest: a reader does not migrate. Raises StoreRefused."""
    version = _known_version(connection, inspect(connection).get_table_names(), where, target)
    if version < target:
        raise StoreRefused(
            f"{where}: schema version {version} is older than {target}: start this groupd once "
            "to bring it up to date"
        )


def _known_version(connection: Connection, existing: list[str], where: str, target: int) -> int:
    version = (
        connection.scalar(select(tables.meta.c.schema_version))
        if tables.meta.name in existing
        else None
    )
    if version is None:
        raise StoreRefused(f"{where}: not a groupd database: choose another database")
    if version > target:
        raise StoreRefused(
            f"{where}: schema version {version} is newer than {target}, the newest this groupd "
            "knows: start the newer groupd or choose another database"
        )
    return int(version)
