"""A store opened for reading only, beside whoever writes it.

Takes no lock, creates nothing, migrates nothing. Beside the checked reads of `PartitionLogs` it
gives the rows of a log as they stand, damaged ones too, for tools that look for damage.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, bindparam, func, or_, select, text

from storage.batches import BATCH_COLUMNS
from storage.checksums import batch_crc, check_log
from storage.log import LogCorrupt, LogState, StoredBatch
from storage.sql_catalogue import SqlCatalogue
from storage.sql_logs import Backend, SqlLogs
from storage.tables import log, log_batch

T = TypeVar("T")

_ROWS = 16
"""Rows loaded at once: each may be as large as the largest batch."""


class StoredRow(NamedTuple):
    """A row of a log; `intact`: its checksum is right."""

    batch: StoredBatch
    intact: bool


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


_LOGS = select(
    log.c.row_sum,
    log.c.log_id,
    log.c.name,
    log.c.owner_epoch,
    log.c.start_offset,
    log.c.next_offset,
    log.c.clean_offset,
).order_by(log.c.log_id)


class StoreReader(SqlLogs, SqlCatalogue):
    """Of `Store`, what reads. Writing raises LogUnavailable."""

    def __init__(self, backend: Backend) -> None:
        SqlLogs.__init__(self, backend)
        SqlCatalogue.__init__(self, backend)

    async def start(self) -> None:
        """Connects and checks the schema's version. Raises StoreRefused."""
        await self._backend.start()

    async def close(self) -> None:
        await self._backend.close()

    async def states(self) -> list[LogState]:
        """Every log, by name."""
        query = select(
            log.c.name, log.c.owner_epoch, log.c.start_offset, log.c.next_offset, log.c.clean_offset
        )
        named = query.where(log.c.name.is_not(None)).order_by(log.c.name)
        return await self._backend.read(
            lambda connection: [LogState(*row) for row in connection.execute(named)]
        )

    async def scan(self, name: str, visit: Callable[[LogState, Iterator[StoredRow]], T]) -> T:
        """`visit` with the live rows of a log in the order of their last offsets, in one
        transaction; the log must exist. Raises LogCorrupt where a row has values of wrong types.
        """

        def work(connection: Connection) -> T:
            row = connection.execute(select(log).where(log.c.name == name)).one()
            state = LogState(
                name, row.owner_epoch, row.start_offset, row.next_offset, row.clean_offset
            )
            return visit(state, _rows(connection, name, row.log_id, row.start_offset))

        return await self._backend.read(work)

    async def damage(self) -> list[str]:
        """What the database itself finds wrong, batches that belong to no log, and rows of the
        small tables whose checksum is wrong."""

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
        for read in (self.cluster_id, self.topics, self.configs):
            try:
                await read()
            except LogCorrupt as error:
                found.append(str(error))
        return found


def _rows(connection: Connection, name: str, log_id: int, start_offset: int) -> Iterator[StoredRow]:
    at = {"log_id": log_id, "last": start_offset, "batch_id": -1}
    while True:
        rows = connection.execute(_PAGE, at).all()
        for _, base_offset, last_offset, max_timestamp_ms, crc, payload, _ in rows:
            try:
                right = batch_crc(log_id, base_offset, last_offset, max_timestamp_ms, payload)
            except (TypeError, struct.error) as error:
                # In SQLite any value may be of any type, and a flipped bit may change it.
                raise LogCorrupt(f"log {name}: a row is no batch ({error})") from error
            stored = StoredBatch(base_offset, last_offset, max_timestamp_ms, payload)
            yield StoredRow(stored, right == crc)
        if len(rows) < _ROWS:
            return
        at = {"log_id": log_id, "last": rows[-1].last_offset, "batch_id": rows[-1].batch_id}
