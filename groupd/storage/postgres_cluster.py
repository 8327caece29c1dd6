"""PostgreSQL as the store of a cluster: several processes use one database, each as a member.

Every write of a member holds a key share lock on the member's own row, at its incarnation. To fence
a member, another node changes that incarnation. So a write is either committed before the change or
not done at all. ADR 40.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, delete, insert, select, text, update

from groupd.storage.batches import Advance, BatchRows
from groupd.storage.cluster import (
    EPOCH_STEP,
    CatalogueBehind,
    CatalogueChangesSince,
    LeaseLost,
    UnitState,
)
from groupd.storage.db_transactions import Transactions
from groupd.storage.log import LogFenced, StoreRefused
from groupd.storage.membership_rows import all_units, notify, timeline
from groupd.storage.migrate import migrate
from groupd.storage.postgres import (
    Fence,
    PostgresBackend,
    append_rows,
    connecting,
    is_dead,
)
from groupd.storage.postgres_membership import PostgresMembership
from groupd.storage.postgres_session import LOCK_CLASS, MIGRATION_CLASS, connect
from groupd.storage.postgres_url import PostgresAddress, parse_url
from groupd.storage.sql import SqlStore
from groupd.storage.tables import (
    SCHEMA_VERSION,
    catalogue_change,
    cluster_node,
    cluster_state,
    cluster_unit,
    meta,
)
from groupd.storage.units import OwnedUnit, Unit

T = TypeVar("T")

CHANGES_KEPT = 10_000
"""How many catalogue changes the journal keeps. A node that misses more reads the whole
catalogue."""

MIGRATION_MS = 600_000
"""How long a node may take to create or migrate the tables, or wait while another node does it."""

_MIGRATION_LOCK = f"SELECT pg_advisory_xact_lock({MIGRATION_CLASS}, hashtext(current_schema()))"
_ALONE = f"SELECT pg_try_advisory_xact_lock({LOCK_CLASS}, hashtext(current_schema()))"
_OWNER = select(meta.c.owner_epoch)
_NODE = select(cluster_node.c.node_id).with_for_update(read=True, key_share=True)


class ClusterStore(SqlStore):
    """A store that several nodes share."""

    def __init__(self, backend: ClusterBackend) -> None:
        super().__init__(backend)
        self.membership = PostgresMembership(backend.address, backend.joined)
        self.journal = backend

    async def start(self) -> None:
        await super().start()
        try:
            await self.membership.start()
        except BaseException:
            await super().close()
            raise

    async def close(self) -> None:
        await self.membership.close()
        await super().close()


def cluster_store(url: str) -> ClusterStore:
    """Returns the store behind `url`, not started. Raises StoreRefused."""
    return ClusterStore(ClusterBackend(parse_url(url)))


class ClusterBackend(PostgresBackend):
    """See `storage.sql_logs.Backend`. It is also the `CatalogueJournal`."""

    shares = True
    # Longer than in the base class: the renewals of the lease notice most lost connections.
    watch_s = 6.0

    def __init__(self, address: PostgresAddress) -> None:
        super().__init__(address)
        self.address = address
        self.applied = self.written = 0
        self.timeline = ""
        """The server's timeline when the store was opened."""
        self._fence: Fence | None = None
        self._member = False

    def joined(self, fence: Fence | None) -> None:
        """From now on writes are made as this member; None: the node is no member any more."""
        self._fence = fence
        self._member = self._member or fence is not None

    # Start --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Creates or migrates the tables, then connects. Raises StoreRefused."""
        session = partial(connect, self.address, writes=True, statement_timeout_ms=MIGRATION_MS)
        once = Transactions(connecting(session), 1, is_dead)
        await self._prepare(once, self._bring_up_to_date)
        await once.close()
        await super().start()
        self.applied, self.timeline = await super().write(
            lambda connection: (_catalogue_version(connection), timeline(connection))
        )

    def _bring_up_to_date(self, connection: Connection) -> None:
        """Creates or migrates the tables. Only one node does this at a time, and an existing schema
        is only changed by a node that is alone."""
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text(_MIGRATION_LOCK))
        known = connection.scalar(text("SELECT to_regclass('meta') IS NOT NULL"))
        version = connection.scalar(select(meta.c.schema_version)) if known else SCHEMA_VERSION
        older = version is not None and version < SCHEMA_VERSION
        if older and not connection.scalar(text(_ALONE)):
            raise StoreRefused(
                f"{self._where}: schema version {version} is older than {SCHEMA_VERSION}, and "
                "others use it: stop them first"
            )
        migrate(connection, self._where)

    def _take_over(self, connection: Connection) -> int:
        """Returns the owner epoch without raising it. It differs from the one before if a daemon
        has had the database alone in between."""
        return int(connection.execute(_OWNER).scalar_one())

    # Writes -------------------------------------------------------------------------------

    def _held(self) -> Fence | None:
        """The member as which this node writes; None before it has joined for the first time.
        Raises LeaseLost."""
        if self._fence is None and self._member:
            raise LeaseLost(f"{self._where}: this node is no member of the cluster now")
        return self._fence

    async def append(self, advances: Sequence[Advance], rows: BatchRows) -> None:
        fence = self._held()
        if fence is None:
            raise LogFenced([])

        def work(connection: Connection) -> None:
            append_rows(connection, advances, rows, fence)

        await self._run(self._writers, work, single=True)

    async def write(self, work: Callable[[Connection], T]) -> T:
        fence = self._held()

        def fenced(connection: Connection) -> T:
            if fence is not None:
                _hold(connection, fence)
            return work(connection)

        return await super().write(fenced)

    def owns(self, connection: Connection, owned: OwnedUnit) -> bool:
        fence = self._held()
        if fence is None:
            return False
        columns = cluster_unit.c
        query = (
            select(columns.epoch)
            .where(columns.kind == owned.unit.kind, columns.number == owned.unit.number)
            .where(columns.owner == fence.node, columns.incarnation == fence.incarnation)
            .where(columns.epoch == owned.epoch)
            .with_for_update(read=True)
        )
        return connection.scalar(query) is not None

    # The catalogue ------------------------------------------------------------------------

    async def change(
        self, work: Callable[[Connection], T], entries: Sequence[tuple[str, str]]
    ) -> T:
        # The version is computed here and not in the transaction, which may begin late: the change
        # was decided with what is in memory now.
        version, fence = max(self.applied, self.written) + 1, self._held()

        def change(connection: Connection) -> T:
            # All members lock the row of the cluster first, then their own, so that they do not
            # block each other.
            _count_up(connection, version, entries)
            if fence is not None:
                _hold(connection, fence)
            return work(connection)

        result = await super().write(change)
        self.written = version
        return result

    def next_epochs(self, connection: Connection, units: Sequence[Unit]) -> tuple[int, ...]:
        known = {one.unit: one for one in all_units(connection)}
        made = (known.get(unit, UnitState(unit, None, None, 0)) for unit in units)
        return tuple(one.epoch + (EPOCH_STEP if one.owner is None else 0) for one in made)

    async def look(self, work: Callable[[Connection], T]) -> T:
        return await self.read(work)

    async def changes(self) -> CatalogueChangesSince:
        applied, columns = self.applied, catalogue_change.c
        query = (
            select(columns.version, columns.kind, columns.entry_key)
            .where(columns.version > applied)
            .order_by(columns.version, columns.number)
            .limit(CHANGES_KEPT + 1)
        )

        def work(connection: Connection) -> CatalogueChangesSince:
            version = _catalogue_version(connection)
            rows = connection.execute(query).all()
            complete = len(rows) <= CHANGES_KEPT and (
                version == applied or (bool(rows) and rows[0][0] == applied + 1)
            )
            entries = tuple((row[1], row[2]) for row in rows)
            return CatalogueChangesSince(version, entries if complete else (), complete)

        changes = await self.read(work)
        # After a failover the standby may lack changes that this node has written.
        self.written = min(self.written, changes.version)
        return changes

    def advance(self, version: int) -> None:
        self.applied = max(self.applied, version)

    def forget(self) -> None:
        self.applied = self.written = -1


def _catalogue_version(connection: Connection) -> int:
    return int(connection.execute(select(cluster_state.c.catalogue_version)).scalar_one())


def _hold(connection: Connection, fence: Fence) -> None:
    """Locks the row of this member until the transaction ends. Raises LeaseLost."""
    row = _NODE.where(
        cluster_node.c.node_id == fence.node, cluster_node.c.incarnation == fence.incarnation
    )
    if connection.scalar(row) is None:
        raise LeaseLost(f"node {fence.node} was fenced")


def _count_up(connection: Connection, version: int, entries: Sequence[tuple[str, str]]) -> None:
    """Stores the change that makes this version of the catalogue. Raises CatalogueBehind."""
    columns = cluster_state.c
    moved = connection.execute(
        update(cluster_state)
        .where(columns.catalogue_version == version - 1)
        .values(catalogue_version=version)
    )
    if moved.rowcount != 1:
        raise CatalogueBehind(f"the catalogue is newer than version {version - 1}")
    connection.execute(
        insert(catalogue_change),
        [
            {"version": version, "number": number, "kind": kind, "entry_key": key}
            for number, (kind, key) in enumerate(entries)
        ],
    )
    old = catalogue_change.c.version <= version - CHANGES_KEPT
    connection.execute(delete(catalogue_change).where(old))
    notify(connection)
