"""The SQL schema: the only definition of tables, for every dialect.

- `log`: one row for each log. `name` is null while the batches of a deleted log are being dropped.
  Ids are never reused, so rows of a deleted log do not belong to another log. The cleaner has been
  below `clean_offset`.
- `log_batch`: one row for each record batch. Below the log's clean offset a row holds the batches
  that are left of a range of offsets. Rows below a log's start offset are dead, and are dropped in
  the background.
- `topic`, `config_override`, `producer_id`: the catalogue.
- `security_entry`: ACLs, SCRAM credentials and quotas.
- `meta`: one row with the schema version, the cluster id and the owner epoch.
- `cluster_node`, `cluster_unit`, `cluster_state`, `catalogue_change`: the state that the nodes of a
  cluster share, see `cluster`. They are empty if the store has one owner.

`row_crc` and `row_sum` are checksums of the other columns of their row, see `checksums`. The
checksum of `meta` does not cover the owner epoch, nor the schema version, which has its own check.
Times are milliseconds since 1970, offsets and epochs as in Kafka.
"""

from __future__ import annotations

from typing import Any

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
    event,
    false,
    text,
)

SCHEMA_VERSION = 8
"""Raise it by one for each change of a table, and add a migration to `migrate.MIGRATIONS`. Also
raise it if the contents of logs change so that an older version would misunderstand them."""

metadata = MetaData()

# SQLite assigns row ids by itself only if the type of the column is exactly INTEGER.
_ROW_ID = BigInteger().with_variant(Integer(), "sqlite")

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("schema_version", Integer, nullable=False),
    Column("cluster_id", String(22), nullable=False),
    Column("row_crc", BigInteger, nullable=False),
    # How often a store has taken the database over. A store that knows an older number has lost the
    # database. Only counted for databases whose lock can be lost, see `postgres`.
    Column("owner_epoch", BigInteger, nullable=False, server_default=text("0")),
)

log = Table(
    "log",
    metadata,
    Column("log_id", _ROW_ID, primary_key=True),
    Column("name", String(300), unique=True),
    Column("owner_epoch", BigInteger, nullable=False),
    Column("start_offset", BigInteger, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("row_sum", BigInteger, nullable=False),
    Column("clean_offset", BigInteger, nullable=False, server_default=text("0")),
    sqlite_autoincrement=True,
)

log_batch = Table(
    "log_batch",
    metadata,
    # With a key of its own, SQLite's table is in the order of writing: payloads are added at the
    # end of the file, and only the small index below is written at random places.
    Column("batch_id", _ROW_ID, primary_key=True),
    Column("log_id", BigInteger, nullable=False),
    Column("base_offset", BigInteger, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("max_timestamp_ms", BigInteger, nullable=False),
    Column("row_crc", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
)

TUNING = {
    # Every append updates rows of this table. If their page has free space, no index is touched.
    log: "ALTER TABLE log SET (fillfactor = 50)",
    # Batches were compressed by their producers, or compress hardly at all.
    log_batch: "ALTER TABLE log_batch ALTER COLUMN payload SET STORAGE EXTERNAL",
}
"""PostgreSQL's storage settings of a table, set once when it is created."""


def _tune(table: Table, connection: Connection, **_: Any) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(TUNING[table])


for _table in TUNING:
    event.listen(_table, "after_create", _tune)

# The index is by last offset: the batch that contains an offset is the first batch whose last
# offset is not below it. It includes the timestamp so that a search for one does not read the rows.
# It need not be unique, because an append moves `log.next_offset` in the same transaction.
Index(
    "log_batch_by_offset", log_batch.c.log_id, log_batch.c.last_offset, log_batch.c.max_timestamp_ms
)

topic = Table(
    "topic",
    metadata,
    Column("topic_id", LargeBinary(16), primary_key=True),
    Column("name", String(249), nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("configs", Text, nullable=False),  # a JSON object
    Column("row_crc", BigInteger, nullable=False),
    # A JSON list, see `log.FirstEpochs`; empty if there are none.
    Column("first_epochs", Text, nullable=False, server_default=text("''")),
)

config_override = Table(
    "config_override",
    metadata,
    Column("resource_type", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("row_crc", BigInteger, nullable=False),
)

security_entry = Table(
    "security_entry",
    metadata,
    Column("kind", String(16), primary_key=True),
    # SHA-256 of `entry_key`, which may be too long for an index of PostgreSQL.
    Column("key_hash", LargeBinary(32), primary_key=True),
    Column("entry_key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("row_crc", BigInteger, nullable=False),
)

producer_id = Table(
    "producer_id",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("next_id", BigInteger, nullable=False),
    Column("row_crc", BigInteger, nullable=False),
)

cluster_node = Table(
    "cluster_node",
    metadata,
    Column("node_id", Integer, primary_key=True, autoincrement=False),
    # In an index together with the id. So a change of the incarnation waits for transactions that
    # hold a key share lock on the row (each append of the node does). A renewal of the lease does
    # not wait.
    Column("incarnation", BigInteger, nullable=False),
    # By the clock of the database; null: the node is no member.
    Column("lease_until_ms", BigInteger),
    Column("facts", Text, nullable=False),  # a JSON object
    Column("applied", BigInteger, nullable=False, server_default=text("0")),
    Column("draining", Boolean, nullable=False, server_default=false()),
    Column("leaving", Boolean, nullable=False, server_default=false()),
)

Index(
    "cluster_node_by_incarnation",
    cluster_node.c.node_id,
    cluster_node.c.incarnation,
    unique=True,
)

cluster_unit = Table(
    "cluster_unit",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("owner", Integer),
    Column("incarnation", BigInteger),
    Column("wanted", Integer),
    Column("epoch", BigInteger, nullable=False, server_default=text("0")),
)

cluster_state = Table(
    "cluster_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("units_version", BigInteger, nullable=False, server_default=text("0")),
    Column("catalogue_version", BigInteger, nullable=False, server_default=text("0")),
    Column("timeline", String(8), nullable=False, server_default=text("''")),
    Column("timeline_since_ms", BigInteger, nullable=False, server_default=text("0")),
    Column("level", Integer, nullable=False, server_default=text("1")),
)

catalogue_change = Table(
    "catalogue_change",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("entry_key", Text, nullable=False),
)
