"""A database server: the tables of a cluster, the logs of its units, and one session a node.

Every transaction happens in one instant of the world. A request or its answer may be late or lost:
then the node is told that the database is unavailable, while the transaction may still happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct, field

from groupd.storage.cluster import (
    EPOCH_STEP,
    ClusterState,
    LeaseLost,
    NodeFacts,
    NodeIdInUse,
    NodeState,
    Plan,
    UnitState,
)
from groupd.storage.log import LogError, LogFenced, LogUnavailable
from groupd.storage.units import (
    OwnedUnit,
    Unit,
)
from tests.simulator.loop import VirtualLoop
from tests.simulator.world import Violation, World

T = TypeVar("T")

TIMEOUT_MS = 900
"""How long a node waits for an answer."""


class NodeRow(Struct):
    facts: NodeFacts
    incarnation: int
    until_ms: int
    member: bool = True
    applied: int = 0
    draining: bool = False
    leaving: bool = False


class UnitRow(Struct):
    owner: int | None = None
    incarnation: int = 0
    wanted: int | None = None
    epoch: int = 0


class LogRow(Struct):
    """The log of a unit: (epoch of the owner, value) by offset. `epoch`: the log's own."""

    epoch: int = 0
    entries: list[tuple[int, str]] = field(default_factory=list)


class Appended(NamedTuple):
    """Whether the unit was owned at the writer's epoch when it was appended, and on which
    timeline that was."""

    owned: bool
    timeline: int


class Tables(Struct):
    nodes: dict[int, NodeRow] = field(default_factory=dict)
    units: dict[Unit, UnitRow] = field(default_factory=dict)
    logs: dict[Unit, LogRow] = field(default_factory=dict)
    units_version: int = 0
    catalogue: int = 0
    timeline: int = 1
    timeline_since_ms: int = -1_000_000
    level: int = 1


class Database:
    """`lease_ms`: the longest lease that any node asks for."""

    def __init__(self, world: World, lease_ms: int) -> None:
        self.tables = Tables()
        self.up = True
        self.clock_offset_ms = world.between(-5000, 5000)
        self.listeners: list[Callable[[], None]] = []
        self.owners: dict[tuple[Unit, int, int], tuple[int, int]] = {}
        """(unit, epoch, timeline) -> the node and incarnation that had it."""
        self._world = world
        self._lease_ms = lease_ms
        self._copies: list[tuple[int, Tables]] = []
        self._noted = 1

    # What happens to the server

    def now_ms(self) -> int:
        return self._world.now_ms + self.clock_offset_ms

    def copy(self) -> None:
        """What an asynchronous standby has."""
        self._copies = [*self._copies[-3:], (self._world.now_ms, deepcopy(self.tables))]

    def promote(self, *, lossy: bool) -> None:
        """A standby takes the server's place; with `lossy` the newest transactions are gone."""
        if lossy and self._copies:
            since_ms, tables = self._copies[-1]
            self._world.trace("what is newer is lost:", self._world.now_ms - since_ms)
            self.tables = deepcopy(tables)
        self._copies.clear()
        self.clock_offset_ms += self._world.between(-2000, 2000)
        self.tables.timeline += 1
        self.up = True

    # Transactions

    def changed(self) -> None:
        self.tables.units_version += 1
        for notify in self.listeners:
            self._world.after(self._world.between(0, 30), notify)

    def member(self, node_id: int, incarnation: int) -> NodeRow:
        """Raises LeaseLost."""
        row = self.tables.nodes.get(node_id)
        if row is None or not row.member or row.incarnation != incarnation:
            raise LeaseLost(f"node {node_id}")
        return row

    def note_timeline(self) -> None:
        """The first transaction on another timeline writes down when that was."""
        if self._noted != self.tables.timeline:
            self._noted = self.tables.timeline
            self.tables.timeline_since_ms = self.now_ms()

    def is_over(self, row: NodeRow) -> bool:
        """Whether the lease of a member is over."""
        return row.until_ms <= self.now_ms()

    def may_assign_units(self) -> bool:
        """Whether no node can have a lease from the server of before any more."""
        return self.now_ms() >= self.tables.timeline_since_ms + self._lease_ms

    def state(self, known_units: int) -> ClusterState:
        tables = self.tables
        nodes = [
            NodeState(
                row.facts,
                row.incarnation,
                row.until_ms - self.now_ms(),
                row.applied,
                row.draining or row.leaving,
            )
            for row in tables.nodes.values()
            if row.member
        ]
        units = None
        if known_units != tables.units_version:
            units = tuple(
                UnitState(unit, row.owner, row.wanted, row.epoch)
                for unit, row in tables.units.items()
            )
        return ClusterState(
            tuple(nodes),
            units,
            tables.units_version,
            tables.catalogue,
            str(tables.timeline),
            tables.level,
        )

    def free(self, node_id: int) -> None:
        for row in self.tables.units.values():
            if row.owner == node_id:
                row.owner = None


class Session:
    """One node's way to the database: its `Membership`, and the logs. `incarnation` 0: not
    joined."""

    def __init__(self, world: World, database: Database, loop: VirtualLoop, node_id: int) -> None:
        self.cut = False
        self.lost_chance = 0.0
        self.slow_ms = 5
        self.incarnation = 0
        self._world = world
        self._database = database
        self._loop = loop
        self.node_id = node_id

    async def call(self, work: Callable[[Database], T]) -> T:
        world, loop = self._world, self._loop
        answer: asyncio.Future[T] = loop.create_future()

        def settle(result: Any, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        def arrive() -> None:
            if self.cut or not self._database.up or world.chance(self.lost_chance):
                return
            error: Exception | None = None
            result: Any = None
            try:
                self._database.note_timeline()
                result = work(self._database)
            except LogError as raised:
                error = raised
            if not self.cut and not world.chance(self.lost_chance):
                back_ms = world.between(0, self.slow_ms)
                world.after(back_ms, loop.enter, settle, result, error)

        world.after(world.between(0, self.slow_ms), arrive)
        late = LogUnavailable("simulated: no answer")
        world.after(TIMEOUT_MS, loop.enter, settle, None, late)
        return await answer

    # Membership

    async def draw_node_id(self) -> int:
        raise NotImplementedError

    async def join(self, facts: NodeFacts, lease_ms: int) -> int:
        def work(database: Database) -> int:
            row = database.tables.nodes.get(self.node_id)
            in_use = row is not None and row.member and row.until_ms > database.now_ms()
            if in_use and row.facts.process != facts.process:
                raise NodeIdInUse(self.node_id, row.until_ms - database.now_ms())
            incarnation = 1 if row is None else row.incarnation + 1
            draining = row is not None and row.draining
            database.tables.nodes[self.node_id] = NodeRow(
                facts, incarnation, database.now_ms() + lease_ms, draining=draining
            )
            database.free(self.node_id)
            database.changed()
            return incarnation

        self.incarnation = await self.call(work)
        return self.incarnation

    async def renew(self, lease_ms: int, applied: int, known_units: int) -> ClusterState:
        mine = self.incarnation

        def work(database: Database) -> ClusterState:
            row = database.member(self.node_id, mine)
            row.until_ms = database.now_ms() + lease_ms
            row.applied = applied
            return database.state(known_units)

        return await self.call(work)

    async def plan(self, decide: Plan, counts: Mapping[str, int]) -> ClusterState:
        mine = self.incarnation

        def work(database: Database) -> ClusterState:
            database.member(self.node_id, mine)
            if not database.may_assign_units():
                return database.state(-1)
            tables, changed = database.tables, False
            for node_id, row in tables.nodes.items():
                if row.member and database.is_over(row):
                    row.member, row.incarnation = False, row.incarnation + 1
                    database.free(node_id)
                    changed = True
            members = [row.facts.level for row in tables.nodes.values() if row.member]
            tables.level = max(tables.level, min(members))
            for kind, count in counts.items():
                for number in range(count):
                    if Unit(kind, number) not in tables.units:
                        tables.units[Unit(kind, number)] = UnitRow()
                        changed = True
            state = database.state(-1)
            assert state.units is not None
            wanted = decide(state.nodes, state.units)
            for unit, unit_row in tables.units.items():
                changed = changed or unit_row.wanted != wanted.get(unit)
                unit_row.wanted = wanted.get(unit)
            if changed:
                database.changed()
            return database.state(-1)

        return await self.call(work)

    async def acquire(self) -> tuple[UnitState, ...]:
        mine = self.incarnation

        def work(database: Database) -> tuple[UnitState, ...]:
            row = database.member(self.node_id, mine)
            if row.until_ms <= database.now_ms():
                raise LeaseLost(f"node {self.node_id}")
            changed = False
            for unit, one in database.tables.units.items():
                waits_for_me = one.owner is None and one.wanted == self.node_id
                if waits_for_me and database.may_assign_units():
                    one.owner, one.incarnation = self.node_id, mine
                    one.epoch += EPOCH_STEP
                    self._only_owner(database, unit, one.epoch)
                    changed = True
            if changed:
                database.changed()
            return tuple(
                UnitState(unit, one.owner, one.wanted, one.epoch)
                for unit, one in database.tables.units.items()
                if one.owner == self.node_id and one.incarnation == mine
            )

        return await self.call(work)

    def _only_owner(self, database: Database, unit: Unit, epoch: int) -> None:
        key = unit, epoch, database.tables.timeline
        owner = self.node_id, self.incarnation
        if database.owners.setdefault(key, owner) != owner:
            raise Violation(f"{key} is owned by {database.owners[key]} and {owner}")

    async def release(self, units: Sequence[OwnedUnit]) -> None:
        mine = self.incarnation

        def work(database: Database) -> None:
            database.member(self.node_id, mine)
            for unit, epoch in units:
                row = database.tables.units[unit]
                if (row.owner, row.incarnation, row.epoch) == (self.node_id, mine, epoch):
                    row.owner = None
            database.changed()

        await self.call(work)

    async def drain(self, node_id: int, draining: bool) -> bool:
        def work(database: Database) -> bool:
            row = database.tables.nodes.get(node_id)
            if row is not None:
                row.draining = draining
                database.changed()
            return row is not None

        return await self.call(work)

    async def retire(self) -> None:
        mine = self.incarnation

        def work(database: Database) -> None:
            database.member(self.node_id, mine).leaving = True
            database.changed()

        await self.call(work)

    async def leave(self) -> None:
        mine = self.incarnation

        def work(database: Database) -> None:
            database.member(self.node_id, mine).member = False
            database.free(self.node_id)
            database.changed()

        await self.call(work)

    def listen(self, notified: Callable[[], None]) -> None:
        def notify() -> None:
            if not self.cut and self._loop.alive and not self._world.chance(0.2):
                self._loop.enter(notified)

        self._database.listeners.append(notify)

    async def catalogue(self) -> int:
        """The version of the newest change."""
        return await self.call(lambda database: database.tables.catalogue)

    # Logs

    def owns(self, database: Database, owned: OwnedUnit) -> bool:
        """Whether this life of the node owns the unit at that epoch."""
        row = database.tables.units.get(owned.unit)
        mine = self.node_id, self.incarnation, owned.epoch
        return row is not None and (row.owner, row.incarnation, row.epoch) == mine

    async def open(self, owned: OwnedUnit) -> tuple[int, list[tuple[int, str]]]:
        """The log's epoch and its entries. Raises LogFenced, LogUnavailable."""

        def work(database: Database) -> tuple[int, list[tuple[int, str]]]:
            if not self.owns(database, owned):
                raise LogFenced([str(owned.unit)])
            log = database.tables.logs.setdefault(owned.unit, LogRow())
            log.epoch += 1
            return log.epoch, list(log.entries)

        return await self.call(work)

    async def append(self, owned: OwnedUnit, log_epoch: int, offset: int, value: str) -> Appended:
        """Raises LogFenced, LogUnavailable."""
        mine = self.incarnation

        def work(database: Database) -> Appended:
            node = database.tables.nodes.get(self.node_id)
            log = database.tables.logs.get(owned.unit)
            if node is None or not node.member or node.incarnation != mine or log is None:
                raise LogFenced([str(owned.unit)])
            if log.epoch != log_epoch or len(log.entries) != offset:
                raise LogFenced([str(owned.unit)])
            log.entries.append((owned.epoch, value))
            row = database.tables.units[owned.unit]
            now = row.owner, row.incarnation, row.epoch
            return Appended(now == (self.node_id, mine, owned.epoch), database.tables.timeline)

        return await self.call(work)
