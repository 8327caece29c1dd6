"""The state that the nodes of a cluster share in their store: the members, and which of them serves
which unit.

A node is a *member* as long as its lease lasts, by the clock of the database. A *unit* is what one
node serves at a time: a shard of groups, a shard of transactional ids, or the partitions whose
number falls into one bucket. Every acquisition raises the unit's epoch.

Each method is one transaction. If it raises LogUnavailable, the transaction may or may not have
been committed; so every method may be called again. Docs: ADR 40.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from groupd.storage.log import LogError
from groupd.storage.units import OwnedUnit, Unit


class LeaseLost(LogError):
    """This incarnation of the node is no member any more: another node has fenced it, or it has
    left. The state in the memory of its process is not valid any more."""


class NodeIdInUse(LogError):
    """Another process has a lease with this node id. `left_ms`: how long that lease still lasts."""

    def __init__(self, node_id: int, left_ms: int) -> None:
        super().__init__(f"node id {node_id} is in use")
        self.left_ms = left_ms


class NodeTooOld(LogError):
    """The cluster works at a feature level that this node does not know. `str()` is one line."""


class NodeFacts(Struct, frozen=True):
    """What a node tells the others of itself. `listeners`: (name, host, port); other nodes use the
    first one unless `inter_broker` names another. `version`: groupd's version. `level`: the newest
    level of the cluster's features that the node supports. `admin`: the URL of its admin port,
    empty if other machines cannot reach it. `lease_ms`: how long its leases last. `process`:
    differs for each process. If the answer to a `join` was lost, the process finds its own lease by
    it."""

    node_id: int
    listeners: tuple[tuple[str, str, int], ...] = ()
    inter_broker: str = ""
    rack: str | None = None
    version: str = ""
    level: int = 1
    admin: str = ""
    process: str = ""
    lease_ms: int = 0


class NodeState(Struct, frozen=True):
    """A node that has joined, and has neither left nor been fenced since. `lease_left_ms`: by the
    database's clock; 0 or less if the lease is over. `applied`: the version of the catalogue that
    the node works with. `draining`: it is to have no units, because an operator has asked for that
    or because it is about to leave."""

    facts: NodeFacts
    incarnation: int
    lease_left_ms: int
    applied: int
    draining: bool = False


EPOCH_STEP = 2
"""By so much an acquisition raises the epoch of a unit. The epoch in between belongs to the nodes
that are named as the next owner."""


class UnitState(Struct, frozen=True):
    """`owner`: the node that may serve the unit, or None. `wanted`: the node that is to serve it.
    `epoch`: of the present owner, or of the last one."""

    unit: Unit
    owner: int | None
    wanted: int | None
    epoch: int


class ClusterState(Struct, frozen=True):
    """The state of the database at one moment. `units` None: unchanged since the version that the
    caller knows. `timeline`: changes when a standby was promoted. Then acknowledged writes may be
    lost, and all state in memory is to be dropped. `catalogue`: the version of the newest change of
    the catalogue. `level`: the level of the features that all nodes support."""

    nodes: tuple[NodeState, ...]
    units: tuple[UnitState, ...] | None
    units_version: int
    catalogue: int
    timeline: str
    level: int = 1


Plan = Callable[[Sequence[NodeState], Sequence[UnitState]], Mapping[Unit, int]]
"""A pure function of (members whose lease lasts, units). It returns the node that is to serve each
unit; units that are missing in the result are to have no node."""


class Membership(Protocol):
    """The shared tables, as one node uses them. All methods but `start`, `close` and `listen` raise
    LogUnavailable. `renew` and those below it, except `drain`, also raise LeaseLost."""

    async def draw_node_id(self) -> int:
        """Reserves and returns the lowest node id, from 0 on, that no node has ever had."""
        ...

    async def join(self, facts: NodeFacts, lease_ms: int) -> int:
        """Becomes a member with a new incarnation, which is returned. The units of an earlier
        incarnation of this node are free then. Raises NodeIdInUse while another process has the
        lease, and NodeTooOld."""
        ...

    async def renew(self, lease_ms: int, applied: int, known_units: int) -> ClusterState:
        """Extends the lease by `lease_ms` from now, and stores `applied`, the version of the
        catalogue that the node works with. `known_units`: the `units_version` that the caller
        knows."""
        ...

    async def plan(self, decide: Plan, counts: Mapping[str, int]) -> ClusterState:
        """Fences every node whose lease is over, frees its units, and stores the nodes that
        `decide` wants. Once all members support a newer level, the cluster has that level, for
        good. Only one node does this at a time. `counts`: how many units there are to be, by kind;
        missing ones are made."""
        ...

    async def acquire(self) -> tuple[UnitState, ...]:
        """Takes every unit that is wanted on this node and has no owner. Returns all units of this
        node, with their epochs."""
        ...

    async def release(self, units: Sequence[OwnedUnit]) -> None:
        """Gives up units that this node owns at these epochs. Other units stay as they are, so that
        a late release does not free a unit that was acquired again. From now on the node must not
        read or write anything for the units."""
        ...

    async def drain(self, node_id: int, draining: bool) -> bool:
        """Stores that a node, this one or another, is to have no units, or may have units again.
        Returns False if there is no such node."""
        ...

    async def retire(self) -> None:
        """Stores that this node is about to leave. Then it gets no units until it joins again."""
        ...

    async def leave(self) -> None:
        """Releases all units and ends the lease."""
        ...

    async def start(self) -> None:
        """Connects. Raises StoreRefused, also if the database user lacks a right."""
        ...

    async def close(self) -> None: ...

    def listen(self, notified: Callable[[], None]) -> None:
        """Calls `notified` when the tables have changed, and when changes can no longer be noticed.
        A notification may be lost; `renew` makes up for that."""
        ...


class CatalogueChangesSince(Struct, frozen=True):
    """The catalogue entries that have changed up to `version`, as (kind, key) in order; the kinds
    are in `CatalogueJournal`. `complete` False: the changes are too many or no longer stored, so
    the whole catalogue is to be read."""

    version: int
    entries: tuple[tuple[str, str], ...] = ()
    complete: bool = True


class CatalogueBehind(LogError):
    """Another node has changed the catalogue since this one read it, so nothing was written. Read
    the changes, then try again."""


class CatalogueJournal(Protocol):
    """The order of all changes of the catalogue.

    The kinds and keys of entries: "topic" and the hex digits of its id; "config" and a JSON list of
    type, name and key; "security" and a JSON list of kind and key.
    """

    @property
    def applied(self) -> int:
        """The version of the catalogue that this node has in memory; -1 after `forget`."""
        ...

    @property
    def written(self) -> int:
        """The newest version that this node has written itself. The next write takes the version
        after this and `applied`, and fails if another node has already taken that version."""
        ...

    async def changes(self) -> CatalogueChangesSince:
        """Returns the changes after `applied`. Raises LogUnavailable."""
        ...

    def advance(self, version: int) -> None:
        """Notes that this node has applied all changes up to `version`."""
        ...

    def forget(self) -> None:
        """Notes that the whole catalogue is to be read again: the database may have lost
        changes."""
        ...
