"""Schema 1 -> 2: checksums for the rows that had none (all but those of `log_batch`).

Tables are named as they were then: what `tables` says now may be newer.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from groupd.storage.checksums import log_sum, row_crc

_COLUMNS = (
    ("meta", "row_crc"),
    ("log", "row_sum"),
    ("topic", "row_crc"),
    ("config_override", "row_crc"),
    ("producer_id", "row_crc"),
)

_ROWS = (
    ("meta", ("id",), ("cluster_id",)),
    ("topic", ("topic_id",), ("topic_id", "name", "partitions", "configs")),
    (
        "config_override",
        ("resource_type", "name", "key"),
        ("resource_type", "name", "key", "value"),
    ),
    ("producer_id", ("id",), ("next_id",)),
)
"""Table, key, and what the checksum covers."""


def add_row_checksums(connection: Connection) -> None:
    for table, column in _COLUMNS:
        connection.execute(text(f"ALTER TABLE {table} ADD {column} BIGINT NOT NULL DEFAULT 0"))
    for table, key, covered in _ROWS:
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
