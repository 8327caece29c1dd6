"""The rows of members and units on PostgreSQL: functions for the transactions of
`postgres_membership`.

Each function works in a transaction of its caller. A transaction that changes members or units
calls `lock` first, so these changes are made one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, insert, select, text, tuple_, update

from groupd.storage.cluster import (
    ClusterState,
    LeaseLost,
    NodeFacts,
    NodeState,
    NodeTooOld,
    UnitState,
)
from groupd.storage.postgres import Fence
from groupd.storage.producer_ids import take_producer_ids
from groupd.storage.tables import cluster_node, cluster_state, cluster_unit
from groupd.storage.units import OwnedUnit, Unit

CHANNEL = "groupd_cluster"
"""The database's channel for notifications of changes. The payload is the schema's name."""

PRODUCER_IDS_LOST = 1_000_000
"""How many producer ids are skipped when a standby takes over. It may not know of the last blocks
that were given out; these are far more ids than the writes that it can have missed gave out."""

_NOW_MS = text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
_TIMELINE = text("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")
_NOTIFY = text(f"SELECT pg_notify('{CHANNEL}', current_schema())")
_NODES = select(cluster_node).where(cluster_node.c.lease_until_ms.is_not(None))
_NODES = _NODES.order_by(cluster_node.c.node_id)
_UNITS = select(cluster_unit).order_by(cluster_unit.c.kind, cluster_unit.c.number)
_STATE = select(cluster_state)


def notify(connection: Connection) -> None:
    """Notifies all nodes of a change, once the transaction is committed."""
    connection.execute(_NOTIFY)


def clock_ms(connection: Connection) -> int:
    """Returns the time of the database's clock, in milliseconds since 1970."""
    return int(connection.execute(_NOW_MS).scalar_one())


def timeline(connection: Connection) -> str:
    """Returns the server's timeline, which changes when another server has replaced this one."""
    return str(connection.execute(_TIMELINE).scalar_one())


def lock(connection: Connection) -> Row[Any]:
    """Waits for the lock on members and units. Returns the row of `cluster_state`."""
    return connection.execute(_STATE.with_for_update()).one()


def count_up(connection: Connection) -> None:
    """Raises the version of members and units after a change, and notifies all nodes."""
    connection.execute(
        update(cluster_state).values(units_version=cluster_state.c.units_version + 1)
    )
    notify(connection)


def update_me(connection: Connection, me: Fence, **values: object) -> None:
    """Changes the row of this member. Raises LeaseLost."""
    columns = cluster_node.c
    updated = connection.execute(
        update(cluster_node)
        .where(columns.node_id == me.node, columns.incarnation == me.incarnation)
        .values(**values)
    )
    if updated.rowcount != 1:
        raise LeaseLost(f"node {me.node} was fenced")


def check_me(connection: Connection, me: Fence) -> int | None:
    """Returns the end of this member's lease, in milliseconds since 1970; None if it has none.
    Raises LeaseLost."""
    columns = cluster_node.c
    query = select(columns.lease_until_ms).where(
        columns.node_id == me.node, columns.incarnation == me.incarnation
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise LeaseLost(f"node {me.node} was fenced")
    return None if row[0] is None else int(row[0])


def free_units(connection: Connection, node_id: int) -> None:
    """Takes all units away from a node: it was fenced, has left, or joins again."""
    connection.execute(
        update(cluster_unit)
        .where(cluster_unit.c.owner == node_id)
        .values(owner=None, incarnation=None)
    )


def fence_dead(connection: Connection, now_ms: int) -> bool:
    """Fences the members whose leases are over, once their writes that are under way have ended.
    Returns whether there were any."""
    columns = cluster_node.c
    dead = connection.execute(
        update(cluster_node)
        .where(columns.lease_until_ms.is_not(None), columns.lease_until_ms <= now_ms)
        .values(incarnation=columns.incarnation + 1, lease_until_ms=None)
        .returning(columns.node_id)
    ).scalars()
    fenced = list(dead)
    for node_id in fenced:
        free_units(connection, node_id)
    return bool(fenced)


def make_missing(connection: Connection, counts: Mapping[str, int]) -> bool:
    """Inserts the units that do not exist yet. Returns whether there were any."""
    known = {one.unit for one in all_units(connection)}
    missing = [
        {"kind": kind, "number": number}
        for kind, count in counts.items()
        for number in range(count)
        if Unit(kind, number) not in known
    ]
    if missing:
        connection.execute(insert(cluster_unit), missing)
    return bool(missing)


def plan_units(connection: Connection, units: Sequence[Unit], wanted: int | None) -> None:
    """Stores the node that is to serve these units. There must be at least one."""
    columns = cluster_unit.c
    connection.execute(
        update(cluster_unit)
        .where(tuple_(columns.kind, columns.number).in_([tuple(unit) for unit in units]))
        .values(wanted=wanted)
    )


def release_units(connection: Connection, me: Fence, units: Sequence[OwnedUnit]) -> None:
    """Frees these units, of which there must be at least one. It takes a single statement, because
    the groups of the units wait for it."""
    columns = cluster_unit.c
    found = tuple_(columns.kind, columns.number, columns.epoch)
    connection.execute(
        update(cluster_unit)
        .where(found.in_([(*unit, epoch) for unit, epoch in units]))
        .where(columns.owner == me.node, columns.incarnation == me.incarnation)
        .values(owner=None, incarnation=None)
    )


def may_assign_units(connection: Connection, state: Row[Any], now_ms: int, lease_ms: int) -> bool:
    """Whether units may be assigned to nodes: no node can still have a lease from a server that was
    replaced. If the server was replaced, its new timeline is stored, and producer ids are
    skipped."""
    now = timeline(connection)
    if now != state.timeline:
        first = not state.timeline
        if not first:
            take_producer_ids(connection, PRODUCER_IDS_LOST)
        connection.execute(
            update(cluster_state).values(timeline=now, timeline_since_ms=0 if first else now_ms)
        )
        return first
    # Nodes may have leases of different lengths while the setting is being changed.
    longest_ms = max([lease_ms, *(one.facts.lease_ms for one in all_members(connection, now_ms))])
    return bool(now_ms >= state.timeline_since_ms + longest_ms)


def all_members(connection: Connection, now_ms: int) -> tuple[NodeState, ...]:
    """Returns the members, by id. `now_ms`: the time of `clock_ms`."""
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


def all_units(
    connection: Connection, some: ColumnElement[bool] | None = None
) -> tuple[UnitState, ...]:
    """Returns the units, by kind and number. `some`: a condition that selects some of them."""
    query = _UNITS if some is None else _UNITS.where(some)
    return tuple(
        UnitState(Unit(row.kind, row.number), row.owner, row.wanted, row.epoch)
        for row in connection.execute(query)
    )


def state_of_all(connection: Connection, now_ms: int, known_units: int) -> ClusterState:
    """Returns the state of the cluster. `known_units`: the version of the units that the node
    knows."""
    # The version is read before the members and units, so it may be older than they are, but never
    # newer.
    state = connection.execute(_STATE).one()
    units = None if state.units_version == known_units else all_units(connection)
    return ClusterState(
        all_members(connection, now_ms),
        units,
        state.units_version,
        state.catalogue_version,
        timeline(connection),
        state.level,
    )


def check_level(connection: Connection, facts: NodeFacts) -> None:
    """Raises NodeTooOld if the cluster works at a level that the node does not support."""
    level = connection.execute(_STATE).one().level
    if facts.level < level:
        raise NodeTooOld(
            f"the cluster works at level {level} of its features, and groupd "
            f"{facts.version} knows {facts.level}: start a newer version"
        )


def raise_level(connection: Connection, nodes: Sequence[NodeState]) -> None:
    """Raises the cluster's level to the newest level that all members support."""
    level = min(one.facts.level for one in nodes)
    connection.execute(
        update(cluster_state).where(cluster_state.c.level < level).values(level=level)
    )


def is_of(text: str, process: str) -> bool:
    """Whether the stored facts of a member are those of this process."""
    return bool(process) and msgspec.json.decode(text, type=NodeFacts).process == process
