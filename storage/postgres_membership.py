"""`storage.cluster.Membership` on PostgreSQL. All times are the database's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Row, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from groupd.storage.cluster import (
    ClusterState,
    LeaseLost,
    NodeFacts,
    NodeIdInUse,
    NodeState,
    Plan,
    UnitState,
)
from groupd.storage.log import LogError, LogUnavailable, StoreRefused
from groupd.storage.postgres import Fence, connecting, is_dead
from groupd.storage.postgres_session import PostgresErrors, Session, connect, take_lock
from groupd.storage.postgres_url import PostgresAddress
from groupd.storage.tables import cluster_node, cluster_state, cluster_unit
from groupd.storage.transactions import FAILURES, Transactions
from groupd.storage.units import OwnedUnit, Unit

T = TypeVar("T")

CHANNEL = "groupd_cluster"
"""What changes is told on this channel of the database; the payload is the schema's name."""

ANSWER_MS = 1000
"""How long an answer may take before this node asks again: well below any lease."""

LISTEN_AGAIN_S = 0.5

_NOW_MS = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_TIMELINE = text("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")
_NOTIFY = text(f"SELECT pg_notify('{CHANNEL}', current_schema())")
_NODES = select(cluster_node).where(cluster_node.c.lease_until_ms.is_not(None))
_NODES = _NODES.order_by(cluster_node.c.node_id)
_UNITS = select(cluster_unit).order_by(cluster_unit.c.kind, cluster_unit.c.number)
_STATE = select(cluster_state)


def notify(connection: Connection) -> None:
    """Tell all nodes that something has changed, once the transaction is committed."""
    connection.execute(_NOTIFY)


class PostgresMembership:
    """See `storage.cluster.Membership`. `joined` hears of the member that this process is from now
    on, and of None when it is none any more."""

    def __init__(self, address: PostgresAddress, joined: Callable[[Fence | None], None]) -> None:
        self._address = address
        self._errors = PostgresErrors(address)
        self._joined = joined
        self._lease_ms = 0
        self._me: Fence | None = None
        self._transactions: Transactions | None = None
        self._notified: Callable[[], None] = lambda: None
        self._listening: asyncio.Task[None] | None = None

    async def _session(self) -> Session:
        session = await connect(self._address, writes=True, statement_timeout_ms=ANSWER_MS)
        try:
            holder = await take_lock(session, shared=True)
            if holder is not None:
                raise LogUnavailable(f"{self._address.where}: locked by {holder.name}")
        except BaseException:
            session.terminate()
            raise
        return session

    async def start(self) -> None:
        def work(connection: Connection) -> None:
            connection.execute(_TIMELINE)

        transactions = Transactions(connecting(self._session), 1, is_dead)
        try:
            await transactions.run(work)
        except BaseException as error:
            await transactions.close()
            if isinstance(error, FAILURES):
                raise self._errors.refusal(error) from error
            raise
        self._transactions = transactions

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
            self._listening = None
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            await transactions.close()

    async def _run(self, work: Callable[[Connection], T]) -> T:
        if self._transactions is None:
            raise LogUnavailable(f"{self._address.where}: not open")
        try:
            return await self._transactions.run(work)
        except FAILURES as error:
            raise self._errors.log_error(error) from error
        except StoreRefused as refused:
            # For a while the server cannot be a store: mostly it is a standby.
            raise LogUnavailable(str(refused)) from refused
        except LeaseLost:
            self._lost()
            raise

    def _lost(self) -> None:
        self._me = None
        self._joined(None)

    def _mine(self) -> Fence:
        """Raises LeaseLost."""
        if self._me is None:
            raise LeaseLost("this node is no member")
        return self._me

    # Members ------------------------------------------------------------------------------

    async def draw_node_id(self) -> int:
        def work(connection: Connection) -> int:
            _lock(connection)
            taken = set(connection.scalars(select(cluster_node.c.node_id)))
            node_id = next(one for one in range(1, len(taken) + 2) if one not in taken)
            connection.execute(
                insert(cluster_node).values(node_id=node_id, incarnation=0, facts="{}")
            )
            return node_id

        return await self._run(work)

    async def join(self, facts: NodeFacts, lease_ms: int) -> int:
        self._lost()

        def work(connection: Connection) -> int:
            _lock(connection)
            now_ms, node_id = _now_ms(connection), facts.node_id
            query = select(cluster_node).where(cluster_node.c.node_id == node_id)
            known = connection.execute(query.with_for_update()).one_or_none()
            if known is not None and (known.lease_until_ms or 0) > now_ms:
                raise NodeIdInUse(node_id, known.lease_until_ms - now_ms)
            incarnation = 1 if known is None else known.incarnation + 1
            row = {
                "incarnation": incarnation,
                "lease_until_ms": now_ms + lease_ms,
                "facts": msgspec.json.encode(facts).decode(),
                "applied": 0,
                "leaving": False,
            }
            statement = upsert(cluster_node).values(node_id=node_id, **row)
            connection.execute(
                statement.on_conflict_do_update(index_elements=["node_id"], set_=row)
            )
            _free(connection, node_id)
            _changed(connection)
            return int(incarnation)

        incarnation = await self._run(work)
        self._lease_ms = lease_ms
        self._me = Fence(facts.node_id, incarnation)
        self._joined(self._me)
        return incarnation

    async def renew(self, lease_ms: int, applied: int, known_units: int) -> ClusterState:
        me = self._mine()

        def work(connection: Connection) -> ClusterState:
            now_ms = _now_ms(connection)
            _update_me(connection, me, lease_until_ms=now_ms + lease_ms, applied=applied)
            return _state(connection, now_ms, known_units)

        return await self._run(work)

    async def retire(self) -> None:
        me = self._mine()

        def work(connection: Connection) -> None:
            _lock(connection)
            _update_me(connection, me, leaving=True)
            _changed(connection)

        await self._run(work)

    async def leave(self) -> None:
        me = self._mine()

        def work(connection: Connection) -> None:
            _lock(connection)
            _update_me(connection, me, lease_until_ms=None, incarnation=me.incarnation + 1)
            _free(connection, me.node)
            _changed(connection)

        await self._run(work)
        self._lost()

    async def drain(self, node_id: int, draining: bool) -> bool:
        def work(connection: Connection) -> bool:
            _lock(connection)
            rows = connection.execute(
                update(cluster_node)
                .where(cluster_node.c.node_id == node_id)
                .values(draining=draining)
            ).rowcount
            _changed(connection)
            return rows == 1

        return await self._run(work)

    # Units --------------------------------------------------------------------------------

    async def plan(self, decide: Plan, counts: Mapping[str, int]) -> ClusterState:
        me, lease_ms = self._mine(), self._lease_ms

        def work(connection: Connection) -> ClusterState:
            state = _lock(connection)
            _check_me(connection, me)
            now_ms = _now_ms(connection)
            if not _may_give_out(connection, state, now_ms, lease_ms):
                return _state(connection, now_ms, -1)
            changed = _fence_dead(connection, now_ms)
            changed = _make_missing(connection, counts) or changed
            nodes, units = _nodes(connection, now_ms), _units(connection)
            wanted = decide(nodes, units)
            for one in units:
                if wanted.get(one.unit) != one.wanted:
                    _update_unit(connection, one.unit, wanted=wanted.get(one.unit))
                    changed = True
            if changed:
                _changed(connection)
            return _state(connection, now_ms, -1)

        return await self._run(work)

    async def acquire(self) -> tuple[UnitState, ...]:
        me, lease_ms, columns = self._mine(), self._lease_ms, cluster_unit.c
        mine = {"owner": me.node, "incarnation": me.incarnation}
        free = columns.owner.is_(None) & (columns.wanted == me.node)
        owned = (columns.owner == me.node) & (columns.incarnation == me.incarnation)

        def work(connection: Connection) -> tuple[UnitState, ...]:
            state = _lock(connection)
            now_ms = _now_ms(connection)
            if (_check_me(connection, me) or 0) <= now_ms:
                raise LogUnavailable("the lease of this node is over and not renewed yet")
            if _may_give_out(connection, state, now_ms, lease_ms):
                taken = connection.execute(
                    update(cluster_unit).where(free).values(epoch=columns.epoch + 1, **mine)
                )
                if taken.rowcount:
                    _changed(connection)
            return tuple(_unit(row) for row in connection.execute(_UNITS.where(owned)))

        return await self._run(work)

    async def release(self, units: Sequence[OwnedUnit]) -> None:
        me, columns = self._mine(), cluster_unit.c

        def work(connection: Connection) -> None:
            _lock(connection)
            _check_me(connection, me)
            for (kind, number), epoch in units:
                connection.execute(
                    update(cluster_unit)
                    .where(columns.kind == kind, columns.number == number, columns.epoch == epoch)
                    .where(columns.owner == me.node, columns.incarnation == me.incarnation)
                    .values(owner=None, incarnation=None)
                )
            _changed(connection)

        await self._run(work)

    # Notifications ------------------------------------------------------------------------

    def listen(self, notified: Callable[[], None]) -> None:
        self._notified = notified
        if self._listening is None:
            loop = asyncio.get_running_loop()
            self._listening = loop.create_task(self._listen(), name="postgres-listen")

    async def _listen(self) -> None:
        while True:
            with suppress(StoreRefused, *FAILURES, LogError, TimeoutError):
                await self._listen_once()
            self._notified()
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _listen_once(self) -> None:
        """Returns when the session has ended."""
        session = await connect(self._address, writes=False)
        ended = asyncio.Event()
        session.add_termination_listener(lambda _: ended.set())
        try:
            await session.add_listener(CHANNEL, lambda *_: self._notified())
            self._notified()  # whatever was told before
            await ended.wait()
        finally:
            session.terminate()


# Statements -------------------------------------------------------------------------------------


def _now_ms(connection: Connection) -> int:
    return int(connection.execute(_NOW_MS).scalar_one())


def _lock(connection: Connection) -> Row[Any]:
    """Whoever changes members or units does so alone."""
    return connection.execute(_STATE.with_for_update()).one()


def _changed(connection: Connection) -> None:
    connection.execute(
        update(cluster_state).values(units_version=cluster_state.c.units_version + 1)
    )
    notify(connection)


def _update_me(connection: Connection, me: Fence, **values: object) -> None:
    """Raises LeaseLost."""
    columns = cluster_node.c
    updated = connection.execute(
        update(cluster_node)
        .where(columns.node_id == me.node, columns.incarnation == me.incarnation)
        .values(**values)
    )
    if updated.rowcount != 1:
        raise LeaseLost(f"node {me.node} was fenced")


def _check_me(connection: Connection, me: Fence) -> int | None:
    """Until when the lease lasts. Raises LeaseLost."""
    columns = cluster_node.c
    query = select(columns.lease_until_ms).where(
        columns.node_id == me.node, columns.incarnation == me.incarnation
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise LeaseLost(f"node {me.node} was fenced")
    return None if row[0] is None else int(row[0])


def _free(connection: Connection, node_id: int) -> None:
    connection.execute(
        update(cluster_unit)
        .where(cluster_unit.c.owner == node_id)
        .values(owner=None, incarnation=None)
    )


def _fence_dead(connection: Connection, now_ms: int) -> bool:
    """Fence the members whose leases are over. Waits for their writes that are under way."""
    columns = cluster_node.c
    dead = connection.execute(
        update(cluster_node)
        .where(columns.lease_until_ms.is_not(None), columns.lease_until_ms <= now_ms)
        .values(incarnation=columns.incarnation + 1, lease_until_ms=None)
        .returning(columns.node_id)
    ).scalars()
    fenced = list(dead)
    for node_id in fenced:
        _free(connection, node_id)
    return bool(fenced)


def _make_missing(connection: Connection, counts: Mapping[str, int]) -> bool:
    known = {one.unit for one in _units(connection)}
    missing = [
        {"kind": kind, "number": number}
        for kind, count in counts.items()
        for number in range(count)
        if Unit(kind, number) not in known
    ]
    if missing:
        connection.execute(insert(cluster_unit), missing)
    return bool(missing)


def _update_unit(connection: Connection, unit: Unit, **values: object) -> None:
    connection.execute(
        update(cluster_unit)
        .where(cluster_unit.c.kind == unit.kind, cluster_unit.c.number == unit.number)
        .values(**values)
    )


def _may_give_out(connection: Connection, state: Row[Any], now_ms: int, lease_ms: int) -> bool:
    """Whether no node can have a lease any more that it got from a server that was replaced."""
    timeline = connection.execute(_TIMELINE).scalar_one()
    if timeline != state.timeline:
        first = not state.timeline
        connection.execute(
            update(cluster_state).values(
                timeline=timeline, timeline_since_ms=0 if first else now_ms
            )
        )
        return first
    return bool(now_ms >= state.timeline_since_ms + lease_ms)


def _nodes(connection: Connection, now_ms: int) -> tuple[NodeState, ...]:
    return tuple(
        NodeState(
            msgspec.json.decode(row.facts, type=NodeFacts),
            row.incarnation,
            row.lease_until_ms - now_ms,
            row.applied,
            row.draining or row.leaving,
        )
        for row in connection.execute(_NODES)
    )


def _unit(row: Row[Any]) -> UnitState:
    return UnitState(Unit(row.kind, row.number), row.owner, row.wanted, row.epoch)


def _units(connection: Connection) -> tuple[UnitState, ...]:
    return tuple(_unit(row) for row in connection.execute(_UNITS))


def _state(connection: Connection, now_ms: int, known_units: int) -> ClusterState:
    # The version is read before what it stands for: it may be older than that, never newer.
    state = connection.execute(_STATE).one()
    timeline = connection.execute(_TIMELINE).scalar_one()
    units = None if state.units_version == known_units else _units(connection)
    return ClusterState(
        _nodes(connection, now_ms),
        units,
        state.units_version,
        state.catalogue_version,
        timeline,
        state.level,
    )
