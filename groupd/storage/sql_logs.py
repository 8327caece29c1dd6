"""`PartitionLogs` over SQL, for every dialect.

All SQL but that of appends is in synchronous functions, which get a connection inside a
transaction. A `Backend` runs them (`AsyncConnection.run_sync`, see `storage.db_transactions`). Each
call is all or nothing, even if the caller is cancelled. Every commit of a client waits for an
append, so each `Backend` has its own append, as fast as its database allows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Executable,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from groupd.storage.batches import (
    FIRST_AT_OR_AFTER,
    LOG_COLUMNS,
    NAMES_MAX,
    WITH_MAX_TIMESTAMP,
    Advance,
    BatchRows,
    LogRow,
    ends,
    extents,
    live_size,
    plan,
    read_range,
    replace_rows,
    to_batch,
    to_row,
)
from groupd.storage.call_batcher import CallBatcher
from groupd.storage.checksums import (
    check_log,
    log_sum,
    name_dropped,
    owner_changed,
    start_moved,
)
from groupd.storage.log import (
    EXTENTS_MAX,
    Append,
    LogCorrupt,
    LogFenced,
    LogState,
    Replacement,
    RowExtent,
    StoredBatch,
    StoreTaken,
)
from groupd.storage.tables import log, log_batch
from groupd.storage.units import OwnedUnit, Unit

T = TypeVar("T")

_WRONG_TYPES = (TypeError, ValueError, OverflowError, struct.error)
"""The errors that a value raises if a flipped bit has changed its type."""

_DROPPED_ROWS_MAX = 256
"""How many dead batches one transaction drops, so that appends need not wait for all of them."""

_LOGS = select(*LOG_COLUMNS)
_TAKE = (
    update(log)
    .where(log.c.log_id == bindparam("of_log"))
    .values(owner_epoch=bindparam("mine"), row_sum=log.c.row_sum + bindparam("difference"))
)
_SUM = update(log).where(log.c.log_id == bindparam("of_log")).values(row_sum=bindparam("sum"))


class Backend(Protocol):
    """Runs transactions on a database."""

    async def start(self) -> None:
        """Connects to the database. Raises StoreRefused."""
        ...

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` in a transaction that is committed when it returns and rolled back when it
        raises. Calls run one at a time, in their order. So an append waits behind at most one of
        them. Raises LogUnavailable, LogCorrupt and the errors of `work`."""
        ...

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Runs `work` on one consistent state of the database. Does not wait for writers."""
        ...

    async def look(self, work: Callable[[Connection], T]) -> T:
        """`read` for the catalogue. In a store with one owner it takes its turn with `write`."""
        ...

    async def change(
        self, work: Callable[[Connection], T], entries: Sequence[tuple[str, str]]
    ) -> T:
        """`write` for the catalogue. `entries`: the changed entries as (kind, key), see
        `storage.cluster.CatalogueJournal`. In a cluster it raises CatalogueBehind."""
        ...

    def next_epochs(self, connection: Connection, units: Sequence[Unit]) -> tuple[int, ...]:
        """Returns the present epoch of each unit that has an owner, else its next one. Empty in a
        store with one owner."""
        ...

    async def append(self, advances: Sequence[Advance], rows: BatchRows) -> None:
        """Moves the ends of the logs and inserts rows of `log_batch`, in one transaction. Fences
        a writer: does nothing and raises LogFenced (without names) if a log's end or owner epoch is
        not what its writer expects. Otherwise raises the errors of `write`."""
        ...

    async def lost(self) -> str:
        """See `storage.log.Store.lost`."""
        ...

    def owns(self, connection: Connection, owned: OwnedUnit) -> bool:
        """Whether this node owns the unit at that epoch, and keeps it until the transaction
        ends."""
        ...

    def acknowledged(self, log_id: int, next_offset: int) -> None:
        """Called when an append is durable and is about to be acknowledged."""
        ...

    def forget(self) -> None:
        """Called once logs count as deleted, before their rows go: the ends that were passed to
        `acknowledged` must not be expected any more."""
        ...

    async def close(self) -> None: ...


class _ToOpen(NamedTuple):
    """The logs of one call, and the unit that they belong to."""

    names: list[str]
    owned: OwnedUnit | None


class SqlLogs:
    """See `storage.log.PartitionLogs`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # The ids of the logs that were opened here. `append` to any other log raises LogFenced.
        self._log_ids: dict[str, int] = {}
        self._opening: CallBatcher[_ToOpen, list[LogRow]] = CallBatcher(self._open)

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        return (await self.open_many([name], owned))[name]

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        """Returns the states of the logs, in the order of `names`. Calls that come at the same time
        share a transaction: a node that takes over many units then waits less for the disk."""
        wanted = list(dict.fromkeys(names))
        states = {}
        for row in await self._opening.ask(_ToOpen(wanted, owned)):
            self._log_ids[row.name] = row.log_id
            states[row.name] = row.state
        return {name: states[name] for name in wanted}

    async def _open(self, asked: Sequence[_ToOpen]) -> list[list[LogRow] | Exception]:
        # Units are locked in this order by all transactions, so that they do not block each other.
        in_order = sorted(range(len(asked)), key=lambda at: (asked[at].owned or (), at))

        def work(connection: Connection) -> dict[int, list[LogRow] | Exception]:
            return {at: self._take(connection, asked[at]) for at in in_order}

        taken = await self._backend.write(work)
        return [taken[at] for at in range(len(asked))]

    def _take(self, connection: Connection, asked: _ToOpen) -> list[LogRow] | Exception:
        names, owned = asked
        if owned is not None and not self._backend.owns(connection, owned):
            return LogFenced(names)
        rows: list[LogRow] = []
        try:
            for start in range(0, len(names), NAMES_MAX):
                rows += _take(connection, names[start : start + NAMES_MAX])
        except LogCorrupt as corrupt:
            return corrupt  # only this question fails; the others get their logs
        return rows

    async def append(self, batches: Sequence[Append]) -> None:
        if not batches:
            return
        advances = plan(batches, self._log_ids)
        rows = [to_row(batch, self._log_ids[batch.name]) for batch in batches]
        try:
            await self._backend.append(advances, rows)
        except StoreTaken as taken:
            raise LogFenced([advance.name for advance in advances]) from taken
        except LogFenced:
            fenced = await self._backend.read(lambda connection: _fenced(connection, advances))
            raise LogFenced(fenced) from None
        self._backend.acknowledged(advances[-1].log_id, advances[-1].next_offset)

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        """Returns no batches for an unknown log."""

        def work(connection: Connection) -> list[StoredBatch]:
            try:
                return read_range(connection, name, from_offset, max_bytes, min_one)
            except _WRONG_TYPES as error:
                raise LogCorrupt(
                    f"log {name}: from offset {from_offset} on a row is no batch ({error})"
                ) from error

        return await self._backend.read(work)

    async def first_at_or_after(self, name: str, timestamp_ms: int) -> StoredBatch | None:
        return await self._one(FIRST_AT_OR_AFTER, name, timestamp_ms=timestamp_ms)

    async def with_max_timestamp(self, name: str) -> StoredBatch | None:
        return await self._one(WITH_MAX_TIMESTAMP, name)

    async def ends(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        return await self._backend.look(lambda connection: ends(connection, names))

    async def extents(
        self, name: str, from_offset: int, rows_max: int = EXTENTS_MAX
    ) -> list[RowExtent]:
        return await self._backend.read(
            lambda connection: extents(connection, name, from_offset, rows_max)
        )

    async def size(self, name: str, end_offset: int) -> int:
        return await self._backend.read(lambda connection: live_size(connection, name, end_offset))

    async def _one(self, query: Executable, name: str, **parameters: int) -> StoredBatch | None:
        def work(connection: Connection) -> StoredBatch | None:
            try:
                row = connection.execute(query, {"name": name, **parameters}).one_or_none()
                return None if row is None else to_batch(name, row)
            except _WRONG_TYPES as error:
                raise LogCorrupt(f"log {name}: a row is no batch ({error})") from error

        return await self._backend.read(work)

    async def truncate_before(self, name: str, offset: int, owner_epoch: int | None = None) -> None:
        """The start offset never passes the log end or moves back. An unknown log is ignored."""

        def work(connection: Connection) -> tuple[int, int] | None:
            found = _rows(connection, [name])
            if not found:
                return None
            row = found[0]
            if owner_epoch not in (None, row.owner_epoch):
                raise LogFenced([name])
            start_offset = max(row.start_offset, min(offset, row.next_offset))
            difference = start_moved(row.log_id, row.start_offset, start_offset)
            connection.execute(
                update(log)
                .where(log.c.log_id == row.log_id)
                .values(start_offset=start_offset, row_sum=log.c.row_sum + difference)
            )
            return row.log_id, start_offset

        moved = await self._backend.write(work)
        if moved is not None:
            log_id, start_offset = moved
            await self._drop(
                (log_batch.c.log_id == log_id) & (log_batch.c.last_offset < start_offset)
            )

    async def replace(self, change: Replacement) -> None:
        change.check()
        log_id = self._log_ids.get(change.name)
        if log_id is None or not await self._backend.write(
            lambda connection: replace_rows(connection, change, log_id)
        ):
            raise LogFenced([change.name])

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        """The logs are gone after the first transaction. Further ones delete their batches."""

        def work(connection: Connection) -> None:
            if owned is not None and not self._backend.owns(connection, owned):
                raise LogFenced(names)
            for start in range(0, len(names), NAMES_MAX):
                for row in _rows(connection, names[start : start + NAMES_MAX]):
                    difference = name_dropped(row.log_id, row.name)
                    connection.execute(
                        update(log)
                        .where(log.c.log_id == row.log_id)
                        .values(name=None, row_sum=log.c.row_sum + difference)
                    )

        await self._backend.write(work)
        # This must not be done earlier: appends to these logs are acknowledged until now. As long
        # as the rows of the logs exist, a start can check their ends.
        self._backend.forget()
        for name in names:
            self._log_ids.pop(name, None)
        await self._drop_deleted()

    async def _check_logs(self) -> None:
        """Raises LogCorrupt if the row of any log is damaged, even of a log that is never opened:
        its name may be what is damaged."""

        def work(connection: Connection) -> None:
            for row in connection.execute(_LOGS):
                check_log(*row)

        await self._backend.write(work)

    async def _drop_deleted(self) -> None:
        """Finishes deletions, also those that were interrupted by a crash."""

        def nameless(connection: Connection) -> list[int]:
            return list(connection.scalars(select(log.c.log_id).where(log.c.name.is_(None))))

        for log_id in await self._backend.write(nameless):
            await self._drop(log_batch.c.log_id == log_id)
            await self._execute(delete(log).where(log.c.log_id == log_id))

    async def _execute(self, statement: Delete) -> int:
        """Executes a deletion and returns how many rows were deleted."""
        return await self._backend.write(lambda connection: connection.execute(statement).rowcount)

    async def _drop(self, dead: ColumnElement[bool]) -> None:
        some = select(log_batch.c.batch_id).where(dead).limit(_DROPPED_ROWS_MAX)
        statement = delete(log_batch).where(log_batch.c.batch_id.in_(some))
        while await self._execute(statement) == _DROPPED_ROWS_MAX:
            pass


def _rows(connection: Connection, names: Sequence[str]) -> list[LogRow]:
    query = _LOGS.where(log.c.name.in_(names)).with_for_update()
    rows = [LogRow._make(row) for row in connection.execute(query)]
    for row in rows:
        check_log(*row)
    return rows


def _take(connection: Connection, names: Sequence[str]) -> list[LogRow]:
    known = _rows(connection, names)
    new = sorted(set(names) - {row.name for row in known}, key=names.index)
    if new:
        known += _create(connection, new)
    taken = [row._replace(owner_epoch=row.owner_epoch + 1) for row in known]
    changes = [
        {
            "of_log": after.log_id,
            "mine": after.owner_epoch,
            "difference": owner_changed(after.log_id, before.owner_epoch, after.owner_epoch),
        }
        for before, after in zip(known, taken, strict=True)
    ]
    connection.execute(_TAKE, changes)
    return taken


def _create(connection: Connection, names: Sequence[str]) -> list[LogRow]:
    nothing = {
        "owner_epoch": 0,
        "start_offset": 0,
        "next_offset": 0,
        "clean_offset": 0,
        "row_sum": 0,
    }
    connection.execute(insert(log), [{"name": name, **nothing} for name in names])
    query = select(log.c.log_id, log.c.name).where(log.c.name.in_(names))
    rows = [
        LogRow(log_sum(log_id, name, 0, 0, 0), log_id, name, 0, 0, 0, 0)
        for log_id, name in connection.execute(query)
    ]
    sums = [{"of_log": row.log_id, "sum": row.row_sum} for row in rows]
    connection.execute(_SUM, sums)
    return rows


def _fenced(connection: Connection, advances: Sequence[Advance]) -> list[str]:
    """Returns the logs whose end or owner epoch is not what their writer expects; all, if none
    is."""
    ends: dict[int, tuple[int, int]] = {}
    ids = [advance.log_id for advance in advances]
    for start in range(0, len(ids), NAMES_MAX):
        query = select(log.c.log_id, log.c.owner_epoch, log.c.next_offset).where(
            log.c.log_id.in_(ids[start : start + NAMES_MAX]), log.c.name.is_not(None)
        )
        ends.update({row[0]: (row[1], row[2]) for row in connection.execute(query)})
    fenced = [
        advance.name
        for advance in advances
        if ends.get(advance.log_id) != (advance.owner_epoch, advance.base_offset)
    ]
    return fenced or [advance.name for advance in advances]
