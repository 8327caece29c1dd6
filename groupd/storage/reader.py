"""A store that is opened for reading only, while a daemon may write it.

It takes no lock, creates nothing and migrates nothing. In addition to the checked reads of
`PartitionLogs` it returns the rows of a log as they are stored, damaged ones too, for tools that
look for damage.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, bindparam, func, or_, select, text

from groupd.storage.batches import BATCH_COLUMNS, LOG_COLUMNS, ROWS_MAX, LogRow, find_log
from groupd.storage.checksums import batch_crc, check_log
from groupd.storage.log import SECURITY_KINDS, LogCorrupt, LogState, StoredBatch
from groupd.storage.sql import SqlCatalogue
from groupd.storage.sql_logs import Backend, SqlLogs
from groupd.storage.tables import log, log_batch

T = TypeVar("T")

_ROWS = 16
"""How many rows are loaded at once. Each may be as large as the largest batch."""


class StoredRow(NamedTuple):
    """A row of a log. `intact`: whether its checksum is right."""

    batch: StoredBatch
    intact: bool


class LogPage(NamedTuple):
    """Some rows of a log, and the state of the log at that moment."""

    state: LogState
    rows: list[StoredRow]


_PAGE = (
    select(*BATCH_COLUMNS, log_batch.c.batch_id)
    .where(log_batch.c.log_id == bindparam("log_id"))
    .where(log_batch.c.last_offset >= bindparam("last"))
    .where(
        or_(
            log_batch.c.last_offset > bindparam("last"),
            log_batch.c.batch_id > bindparam("batch_id"),
        )
    )
    .order_by(log_batch.c.last_offset, log_batch.c.batch_id)
    .limit(_ROWS)
)


_LOGS = select(*LOG_COLUMNS).order_by(log.c.log_id)

# The index covers this query, so no payload is loaded.
_ENDS = (
    select(log_batch.c.last_offset)
    .where(
        log_batch.c.log_id
        == select(log.c.log_id).where(log.c.name == bindparam("name")).scalar_subquery()
    )
    .where(log_batch.c.last_offset.between(bindparam("first"), bindparam("last")))
    .order_by(log_batch.c.last_offset)
)
_TIME_STEP = (log_batch.c.max_timestamp_ms + bindparam("step_ms") - 1) // bindparam("step_ms")
_ENDS_BY_TIME = (
    select(
        _TIME_STEP.label("step"),
        func.min(log_batch.c.max_timestamp_ms),
        func.max(log_batch.c.max_timestamp_ms),
        func.max(log_batch.c.last_offset),
    )
    .where(
        log_batch.c.log_id
        == select(log.c.log_id).where(log.c.name == bindparam("name")).scalar_subquery()
    )
    .where(log_batch.c.max_timestamp_ms >= 0)
    .group_by("step")
    .order_by("step")
)
_SIZES = (
    select(log_batch.c.last_offset, func.length(log_batch.c.payload))
    .where(log_batch.c.log_id == bindparam("log_id"))
    .where(log_batch.c.last_offset >= bindparam("first"))
    .order_by(log_batch.c.last_offset)
    .limit(ROWS_MAX)
)
_RANGE = (
    select(*BATCH_COLUMNS)
    .where(log_batch.c.log_id == bindparam("log_id"))
    .where(log_batch.c.last_offset.between(bindparam("first"), bindparam("last")))
    .order_by(log_batch.c.last_offset, log_batch.c.batch_id)
)


class StoreReader(SqlLogs, SqlCatalogue):
    """The part of `Store` that reads. Calls that write raise LogUnavailable."""

    def __init__(self, backend: Backend) -> None:
        SqlLogs.__init__(self, backend)
        SqlCatalogue.__init__(self, backend)

    async def start(self) -> None:
        """Connects and checks the schema's version. Raises StoreRefused."""
        await self._backend.start()

    async def close(self) -> None:
        await self._backend.close()

    async def states(self) -> list[LogState]:
        """Returns the state of every log, by name."""
        named = select(*LOG_COLUMNS).where(log.c.name.is_not(None)).order_by(log.c.name)
        return await self._backend.read(
            lambda connection: [LogRow._make(row).state for row in connection.execute(named)]
        )

    async def scan(self, name: str, visit: Callable[[LogState, Iterator[StoredRow]], T]) -> T:
        """Calls `visit` with the live rows of a log in the order of their last offsets, in one
        transaction. The log must exist. Raises LogCorrupt if a row has values of wrong types."""

        def work(connection: Connection) -> T:
            found = connection.execute(select(*LOG_COLUMNS).where(log.c.name == name)).one()
            row = LogRow._make(found)
            return visit(row.state, _rows(connection, name, row.log_id, row.start_offset))

        return await self._backend.read(work)

    async def page(
        self, name: str, from_offset: int, until_offset: int, max_bytes: int
    ) -> LogPage | None:
        """Returns the rows that hold offsets of [`from_offset`, `until_offset`), damaged ones too,
        in the order of their last offsets and up to `max_bytes` of payload, but at least one row if
        there is one. None for an unknown log. Raises LogCorrupt if a row has values of wrong
        types."""

        def work(connection: Connection) -> LogPage | None:
            row = find_log(connection, name)
            if row is None:
                return None
            first = max(from_offset, row.start_offset)
            last, total = None, 0
            sizes = connection.execute(_SIZES, {"log_id": row.log_id, "first": first}).all()
            for end, size in sizes:
                total += size
                if last is not None and (total > max_bytes or last + 1 >= until_offset):
                    break
                last = end
            if last is None or first >= until_offset:
                return LogPage(row.state, [])
            place = {"log_id": row.log_id, "first": first, "last": last}
            rows = [_stored(name, found) for found in connection.execute(_RANGE, place)]
            return LogPage(row.state, rows)

        return await self._backend.read(work)

    async def row_ends(self, name: str, from_offset: int, until_offset: int) -> list[int]:
        """Returns the last offsets of the rows that end in [`from_offset`, `until_offset`)."""
        place = {"name": name, "first": from_offset, "last": until_offset - 1}
        return await self._backend.read(lambda connection: list(connection.scalars(_ENDS, place)))

    async def ends_by_time(self, name: str, step_ms: int) -> list[tuple[int, int, int]]:
        """Returns (first time, last time, end of the log then) for each time step of `step_ms` in
        which the end has moved, in the order of time. A batch counts from its largest timestamp on.
        All in ms."""
        place = {"name": name, "step_ms": step_ms}

        def work(connection: Connection) -> list[tuple[int, int, int]]:
            ends: list[tuple[int, int, int]] = []
            for _, first_ms, last_ms, last in connection.execute(_ENDS_BY_TIME, place):
                if not ends or last >= ends[-1][2]:
                    ends.append((first_ms, last_ms, last + 1))
            return ends

        return await self._backend.read(work)

    async def _security(self) -> None:
        for kind in SECURITY_KINDS:
            await self.security_entries(kind)

    async def damage(self) -> list[str]:
        """Describes damage: what the database itself finds, batches that belong to no log, and rows
        of the small tables with a wrong checksum."""

        def work(connection: Connection) -> list[str]:
            found = []
            if connection.dialect.name == "sqlite":
                lines = connection.scalars(text("PRAGMA integrity_check")).all()
                found += [f"integrity check: {line}" for line in lines if line != "ok"]
            known = select(log.c.log_id)
            orphans = select(func.count()).where(log_batch.c.log_id.not_in(known))
            if count := connection.scalar(orphans):
                found.append(f"{count} batches belong to no log")
            for row in connection.execute(_LOGS).all():
                try:
                    check_log(*row)
                except LogCorrupt as error:
                    found.append(str(error))
            return found

        found = await self._backend.read(work)
        for read in (self.cluster_id, self.topics, self.configs, self._security):
            try:
                await read()
            except LogCorrupt as error:
                found.append(str(error))
        return found


def _rows(connection: Connection, name: str, log_id: int, start_offset: int) -> Iterator[StoredRow]:
    at = {"log_id": log_id, "last": start_offset, "batch_id": -1}
    while True:
        rows = connection.execute(_PAGE, at).all()
        for row in rows:
            yield _stored(name, row)
        if len(rows) < _ROWS:
            return
        at = {"log_id": log_id, "last": rows[-1].last_offset, "batch_id": rows[-1].batch_id}


def _stored(name: str, row: Sequence[Any]) -> StoredRow:
    log_id, base_offset, last_offset, max_timestamp_ms, crc, payload = row[:6]
    try:
        right = batch_crc(log_id, base_offset, last_offset, max_timestamp_ms, payload)
    except (TypeError, struct.error) as error:
        # In SQLite any value may have any type, and a flipped bit may change the type.
        raise LogCorrupt(f"log {name}: a row is no batch ({error})") from error
    stored = StoredBatch(base_offset, last_offset, max_timestamp_ms, payload)
    return StoredRow(stored, right == crc)
