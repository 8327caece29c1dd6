"""The statements of an append, for databases that have no better way.

Runs in the transaction of the append, which is rolled back when a log is not where its writer
believes: moving the ends of the logs is what fences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from storage.batches import Advance
from storage.checksums import end_moved
from storage.tables import log, log_batch

Rows = Sequence[Mapping[str, Any]]

WriteBatches = Callable[[Connection, Sequence[Advance], Rows], bool]
"""Moves the ends of the logs and inserts rows of `log_batch`; whether all logs were where their
writer believes. If not, the caller rolls back whatever was done."""

_ADVANCE = (
    update(log)
    .where(log.c.log_id == bindparam("of_log"))
    .where(log.c.owner_epoch == bindparam("mine"))
    .where(log.c.next_offset == bindparam("expected"))
    .where(log.c.name.is_not(None))
    .values(next_offset=bindparam("new_end"), row_sum=log.c.row_sum + bindparam("difference"))
)
_INSERT_BATCH = insert(log_batch)


def write_batches(connection: Connection, advances: Sequence[Advance], rows: Rows) -> bool:
    """See `WriteBatches`."""
    if _advance(connection, advances) != len(advances):
        return False
    connection.execute(_INSERT_BATCH, rows)
    return True


def _advance(connection: Connection, advances: Sequence[Advance]) -> int:
    """How many of the logs were where their writer believes."""
    parameters = [
        {
            "of_log": advance.log_id,
            "mine": advance.owner_epoch,
            "expected": advance.base_offset,
            "new_end": advance.next_offset,
            "difference": end_moved(advance.log_id, advance.base_offset, advance.next_offset),
        }
        for advance in advances
    ]
    if connection.dialect.supports_sane_multi_rowcount:
        return connection.execute(_ADVANCE, parameters).rowcount
    return sum(connection.execute(_ADVANCE, row).rowcount for row in parameters)
