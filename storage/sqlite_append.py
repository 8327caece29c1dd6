"""The append for SQLite, on the driver's own connection and in its thread.

Commits wait for this and for nothing else, so between the writer and the fsync there is one trip
to the thread and no layer: through SQLAlchemy, with a trip per statement, an append took twice
as long. Moving the ends of the logs is what fences.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from groupd.storage.batches import Advance, Rows
from groupd.storage.checksums import end_moved
from groupd.storage.log import LogFenced

_ADVANCE = """
    UPDATE log SET next_offset = ?, row_sum = row_sum + ?
    WHERE log_id = ? AND owner_epoch = ? AND next_offset = ? AND name IS NOT NULL
"""
_INSERT_BATCH = """
    INSERT INTO log_batch (log_id, base_offset, last_offset, max_timestamp_ms, row_crc, payload)
    VALUES (:log_id, :base_offset, :last_offset, :max_timestamp_ms, :row_crc, :payload)
"""


def append_rows(connection: sqlite3.Connection, advances: Sequence[Advance], rows: Rows) -> None:
    """In a transaction. Raises LogFenced (of no log in particular) when one is not where its
    writer believes: the caller rolls back whatever was done."""
    moves = [
        (
            advance.next_offset,
            end_moved(advance.log_id, advance.base_offset, advance.next_offset),
            advance.log_id,
            advance.owner_epoch,
            advance.base_offset,
        )
        for advance in advances
    ]
    if connection.executemany(_ADVANCE, moves).rowcount != len(moves):
        raise LogFenced([])
    connection.executemany(_INSERT_BATCH, rows)
