"""Converts between rows of `log_batch` and batches: checksums, the order of appends, the queries of
reads.

A row's checksum covers the log id, the numbers and the payload. So a read notices a row that was
damaged or that is in the wrong log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import Struct
from sqlalchemy import (
    Connection,
    Integer,
    Select,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from groupd.storage.checksums import batch_crc, check_log, cleaned, end_moved
from groupd.storage.log import (
    Append,
    LogCorrupt,
    LogFenced,
    LogState,
    Replacement,
    RowExtent,
    StoredBatch,
)
from groupd.storage.tables import log, log_batch

BatchRows = Sequence[Mapping[str, Any]]
"""Rows of `log_batch` as `to_row` makes them."""

FEW_ROWS = 16
"""How many rows a read looks at first. A read at the end of a log finds no more than that."""

ROWS_MAX = 512
"""How many rows a read looks at and returns at most. Rows are checked on the event loop, so this
also limits how long a read blocks it: a few milliseconds."""


NAMES_MAX = 500
"""How many names a query has at most: well below every database's limit of parameters."""


class Advance(Struct):
    """The change of one log by one append call: its end moves from `base_offset` to `next_offset`,
    if the log's owner epoch is still `owner_epoch`."""

    name: str
    log_id: int
    owner_epoch: int
    base_offset: int
    next_offset: int


def plan(batches: Sequence[Append], log_ids: dict[str, int]) -> list[Advance]:
    """Returns one advance for each log, ordered by log id so that all writers lock rows in one
    order. Raises LogFenced for logs that were not opened here or whose batches do not follow each
    other."""
    advances: dict[str, Advance] = {}
    fenced: dict[str, None] = {}
    for batch in batches:
        if batch.last_offset < batch.base_offset:
            raise ValueError(f"{batch.name}: batch {batch.base_offset}..{batch.last_offset}")
        log_id = log_ids.get(batch.name)
        advance = advances.get(batch.name)
        if log_id is None:
            fenced[batch.name] = None
        elif advance is None:
            advances[batch.name] = Advance(
                batch.name, log_id, batch.owner_epoch, batch.base_offset, batch.last_offset + 1
            )
        elif (advance.owner_epoch, advance.next_offset) != (batch.owner_epoch, batch.base_offset):
            fenced[batch.name] = None
        else:
            advance.next_offset = batch.last_offset + 1
    if fenced:
        raise LogFenced(list(fenced))
    return sorted(advances.values(), key=lambda advance: advance.log_id)


def to_row(batch: Append, log_id: int) -> dict[str, Any]:
    return {
        "log_id": log_id,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "row_crc": batch_crc(
            log_id, batch.base_offset, batch.last_offset, batch.max_timestamp_ms, batch.payload
        ),
        "payload": batch.payload,
    }


BATCH_COLUMNS = (
    log_batch.c.log_id,
    log_batch.c.base_offset,
    log_batch.c.last_offset,
    log_batch.c.max_timestamp_ms,
    log_batch.c.row_crc,
    log_batch.c.payload,
)


def to_batch(name: str, row: Sequence[Any]) -> StoredBatch:
    """Returns the batch in a row. Raises LogCorrupt if the row is not what was written."""
    log_id, base_offset, last_offset, max_timestamp_ms, crc, payload = row
    if batch_crc(log_id, base_offset, last_offset, max_timestamp_ms, payload) != crc:
        raise LogCorrupt(f"log {name}: the batch at offset {base_offset} has a wrong checksum")
    return StoredBatch(base_offset, last_offset, max_timestamp_ms, payload)


# The row of the log is queried apart and not joined. So every database sees that it needs one range
# of the index, reads it in order and stops at the limit.
_OF_NAME = log.c.name == bindparam("name")


class LogRow(NamedTuple):
    """A row of `log`, with the fields in the order of `check_log`. `name`: None in the database
    once the log is deleted, but such rows are never read here."""

    row_sum: int
    log_id: int
    name: str
    owner_epoch: int
    start_offset: int
    next_offset: int
    clean_offset: int

    @property
    def state(self) -> LogState:
        return LogState(
            self.name, self.owner_epoch, self.start_offset, self.next_offset, self.clean_offset
        )


LOG_COLUMNS = (
    log.c.row_sum,
    log.c.log_id,
    log.c.name,
    log.c.owner_epoch,
    log.c.start_offset,
    log.c.next_offset,
    log.c.clean_offset,
)
"""The columns of `log` in the order of the fields of `LogRow`."""

_LOG = select(*LOG_COLUMNS).where(_OF_NAME)

# Sizes are read first, so that payloads that do not fit into the answer are never loaded.
_SIZES = (
    select(log_batch.c.base_offset, log_batch.c.last_offset, func.length(log_batch.c.payload))
    .where(log_batch.c.log_id == bindparam("log_id"))
    .where(log_batch.c.last_offset >= bindparam("from_offset"))
    .order_by(log_batch.c.last_offset)
    .limit(bindparam("rows", type_=Integer))
)

_RANGE = (
    select(*BATCH_COLUMNS)
    .where(log_batch.c.log_id == bindparam("log_id"))
    .where(log_batch.c.last_offset.between(bindparam("first"), bindparam("last")))
    .order_by(log_batch.c.last_offset)
)


def _sizes(
    connection: Connection, log_id: int, from_offset: int, rows: int
) -> Sequence[Sequence[Any]]:
    return connection.execute(
        _SIZES, {"log_id": log_id, "from_offset": from_offset, "rows": rows}
    ).all()


def find_log(connection: Connection, name: str) -> LogRow | None:
    """Returns the row of a log, None for an unknown log. Raises LogCorrupt."""
    row = connection.execute(_LOG, {"name": name}).one_or_none()
    if row is None:
        return None
    check_log(*row)
    return LogRow._make(row)


def read_range(
    connection: Connection, name: str, from_offset: int, max_bytes: int, min_one: bool
) -> list[StoredBatch]:
    """See `PartitionLogs.read`. All queries on `connection` must see the same state."""
    row = find_log(connection, name)
    if row is None:
        return []
    log_id, start_offset, next_offset = row.log_id, row.start_offset, row.next_offset
    expected = max(from_offset, start_offset)
    if expected >= next_offset:
        return []
    rows_max, sizes = FEW_ROWS, _sizes(connection, log_id, expected, FEW_ROWS)
    if len(sizes) == FEW_ROWS and sum(size for *_, size in sizes) < max_bytes:
        rows_max, sizes = ROWS_MAX, _sizes(connection, log_id, expected, ROWS_MAX)
    if not sizes or sizes[0][0] > expected:
        raise LogCorrupt(f"log {name}: the batch at offset {expected} is missing")
    total = 0
    last: int | None = None
    for _, last_offset, size in sizes:
        total += size
        if total > max_bytes and not (min_one and last is None):
            break
        last = last_offset
    else:
        if len(sizes) < rows_max and last_offset + 1 != next_offset:
            raise LogCorrupt(f"log {name}: the batch at offset {last_offset + 1} is missing")
    if last is None:
        return []
    rows = connection.execute(_RANGE, {"log_id": log_id, "first": sizes[0][1], "last": last})
    batches = [to_batch(name, row) for row in rows]
    for before, after in pairwise(batches):
        if after.base_offset != before.last_offset + 1:
            raise LogCorrupt(f"log {name}: the batch at offset {before.last_offset + 1} is missing")
    return batches


def _one(found: Select[tuple[int]]) -> Select[Any]:
    return select(*BATCH_COLUMNS).where(log_batch.c.batch_id == found.scalar_subquery())


_BATCH_IDS = (
    select(log_batch.c.batch_id)
    .where(log_batch.c.log_id == select(log.c.log_id).where(_OF_NAME).scalar_subquery())
    .where(log_batch.c.last_offset >= select(log.c.start_offset).where(_OF_NAME).scalar_subquery())
)
FIRST_AT_OR_AFTER = _one(
    _BATCH_IDS.where(log_batch.c.max_timestamp_ms >= bindparam("timestamp_ms"))
    .order_by(log_batch.c.last_offset)
    .limit(1)
)
WITH_MAX_TIMESTAMP = _one(
    _BATCH_IDS.order_by(log_batch.c.max_timestamp_ms.desc(), log_batch.c.last_offset).limit(1)
)


_LIVE = (
    log_batch.c.log_id == select(log.c.log_id).where(_OF_NAME).scalar_subquery(),
    log_batch.c.last_offset >= select(log.c.start_offset).where(_OF_NAME).scalar_subquery(),
)
_EXTENTS = (
    select(
        log_batch.c.base_offset,
        log_batch.c.last_offset,
        log_batch.c.max_timestamp_ms,
        func.length(log_batch.c.payload),
    )
    .where(*_LIVE, log_batch.c.last_offset >= bindparam("from_offset"))
    .order_by(log_batch.c.last_offset)
    .limit(bindparam("rows", type_=Integer))
)
_SIZE = select(func.coalesce(func.sum(func.length(log_batch.c.payload)), 0)).where(
    *_LIVE, log_batch.c.last_offset < bindparam("end_offset")
)


def extents(connection: Connection, name: str, from_offset: int, rows_max: int) -> list[RowExtent]:
    """See `MeasuredLogs.extents`."""
    place = {"name": name, "from_offset": from_offset, "rows": rows_max}
    found = connection.execute(_EXTENTS, place)
    return [RowExtent(*row) for row in found]


def ends(connection: Connection, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """See `MeasuredLogs.ends`."""
    query = select(log.c.name, log.c.start_offset, log.c.next_offset)
    return {
        name: (start, end)
        for first in range(0, len(names), NAMES_MAX)
        for name, start, end in connection.execute(
            query.where(log.c.name.in_(names[first : first + NAMES_MAX]))
        )
    }


def live_size(connection: Connection, name: str, end_offset: int) -> int:
    """See `MeasuredLogs.size`."""
    return int(connection.scalar(_SIZE, {"name": name, "end_offset": end_offset}) or 0)


# Replacing a range of rows ----------------------------------------------------------------------

_LOCKED_LOG = select(*LOG_COLUMNS).where(log.c.log_id == bindparam("of_log")).with_for_update()
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
    """Replaces a range of rows. Returns False, and does nothing, if the log has another owner epoch
    or ends before the range. Raises LogCorrupt, and ValueError if the range cuts a row."""
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
    row = connection.execute(_LOCKED_LOG, {"of_log": log_id}).one_or_none()
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
