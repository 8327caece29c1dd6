"""`PartitionLogs.replace` over SQL: a range of a log's rows swapped in one transaction."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from groupd.storage.batches import LOG_COLUMNS, to_row
from groupd.storage.checksums import check_log, cleaned, end_moved
from groupd.storage.log import Append, Replacement
from groupd.storage.tables import log, log_batch

_LOG = select(*LOG_COLUMNS).where(log.c.log_id == bindparam("of_log")).with_for_update()
_MOVE = (
    update(log)
    .where(log.c.log_id == bindparam("of_log"))
    .values(
        clean_offset=bindparam("clean"),
        next_offset=bindparam("end"),
        row_sum=log.c.row_sum + bindparam("difference"),
    )
)
_ROW_AT = (
    select(log_batch.c.base_offset, log_batch.c.last_offset)
    .where(log_batch.c.log_id == bindparam("of_log"))
    .where(log_batch.c.last_offset >= bindparam("at"))
    .order_by(log_batch.c.last_offset)
    .limit(1)
)
_DROP = (
    delete(log_batch)
    .where(log_batch.c.log_id == bindparam("of_log"))
    .where(log_batch.c.last_offset >= bindparam("first"))
    .where(log_batch.c.last_offset < bindparam("end"))
)
_INSERT = insert(log_batch)


def replace_rows(connection: Connection, change: Replacement, log_id: int) -> bool:
    """False if the log is another owner's now or ends before the range; then nothing was done.
    Raises ValueError when the range cuts a row, LogCorrupt."""
    first, end = change.from_offset, change.to_offset
    if not _move(connection, change, log_id):
        return False
    head = connection.execute(_ROW_AT, {"of_log": log_id, "at": first}).one_or_none()
    tail = connection.execute(_ROW_AT, {"of_log": log_id, "at": end - 1}).one_or_none()
    if (head is not None and head[0] != first) or (tail is not None and tail[1] != end - 1):
        raise ValueError(f"{change.name}: {first}..{end} cuts a row")
    connection.execute(_DROP, {"of_log": log_id, "first": first, "end": end})
    rows = [
        Append(
            change.name,
            change.owner_epoch,
            row.base_offset,
            row.last_offset,
            row.max_timestamp_ms,
            row.payload,
        )
        for row in change.rows
    ]
    connection.execute(_INSERT, [to_row(row, log_id) for row in rows])
    return True


def _move(connection: Connection, change: Replacement, log_id: int) -> bool:
    row = connection.execute(_LOG, {"of_log": log_id}).one_or_none()
    if (
        row is None
        or row.name is None
        or row.owner_epoch != change.owner_epoch
        or row.next_offset < change.from_offset
    ):
        return False
    check_log(*row)
    end = max(row.next_offset, change.to_offset)
    difference = end_moved(log_id, row.next_offset, end)
    difference += cleaned(log_id, row.clean_offset, change.clean_offset)
    connection.execute(
        _MOVE,
        {"of_log": log_id, "clean": change.clean_offset, "end": end, "difference": difference},
    )
    return True
