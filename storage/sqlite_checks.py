"""What is asked of a SQLite database before it is served.

The small tables are checked as a whole, with their indexes, which takes less than a millisecond: a
row that an index does not find would be taken for one that never was. `log_batch` is not, as it is
as large as the data: its rows are checked when they are read, each by its checksum and all by their
offsets, which follow each other.
"""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, select, text

from groupd.storage.log import StoreRefused
from groupd.storage.tables import config_override, log, log_batch, meta, producer_id, topic
from groupd.storage.witness import Witness

_WHOLE = (meta, log, topic, config_override, producer_id)
_MEND = "restore the data directory from a copy or choose another"

_FIRST_LOG_ID_BITS = 40
_LAST_LOG_ID = text("SELECT seq FROM sqlite_sequence WHERE name = 'log'")


def number_logs(connection: Connection) -> None:
    """Gives a new database log ids of its own; changes nothing in one that has numbered logs.

    They are part of the checksum of every batch, so pages of another groupd's database (a
    write-ahead log that was mixed up) do not pass for ours.
    """
    if connection.execute(_LAST_LOG_ID).scalar() is not None:
        return
    first = secrets.randbits(_FIRST_LOG_ID_BITS)
    connection.execute(
        text("INSERT INTO sqlite_sequence (name, seq) VALUES ('log', :first)"), {"first": first}
    )


def check_tables(connection: Connection, where: str) -> None:
    """Raises StoreRefused."""
    for table in _WHOLE:
        problem = str(connection.execute(text(f"PRAGMA integrity_check({table.name})")).scalar())
        if problem != "ok":
            raise StoreRefused(
                f"{where}: table {table.name} is damaged ({_line(problem)}): {_MEND}"
            )
    # Of the large table only that it is there.
    connection.execute(select(log_batch.c.batch_id).limit(1)).first()


def check_acknowledged(connection: Connection, where: str, witness: Witness) -> None:
    """Raises StoreRefused when an append that was acknowledged is missing."""
    for log_id, noted in witness.notes():
        query = select(log.c.name, log.c.next_offset).where(log.c.log_id == log_id)
        row = connection.execute(query).one_or_none()
        if row is None:
            newest = connection.execute(_LAST_LOG_ID).scalar()
            is_new = connection.execute(select(log.c.log_id).limit(1)).first() is None
            if newest is not None and log_id <= int(newest) and not is_new:
                continue  # deleted since; those of the coordinator never are
            lost = f"a log with {noted} records is missing"
        elif row.next_offset < noted:
            lost = f"log {row.name} ends at offset {row.next_offset}, but {noted} was acknowledged"
        else:
            continue
        raise StoreRefused(
            f"{where}: {lost}: its write-ahead log was cut or damaged, or an older copy took its "
            f"place: {_MEND}; to serve what is left, delete {witness.path}"
        )


def _line(problem: str) -> str:
    return " ".join(problem.split())
