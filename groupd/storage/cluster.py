"""What the nodes of a cluster share in their store: who is there, and who serves which unit.

A node is a *member* as long as its lease lasts, by the clock of the database. A *unit* is what one
node serves at a time: a shard of groups, a shard of transactional ids, or the partitions whose
number falls into one bucket. Every acquisition counts the unit's epoch up.

Each method is one transaction. When it raises LogUnavailable, nobody knows whether it was done, so
each of them may be called again. Docs: ADR 40.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from groupd.storage.log import LogError
from groupd.storage.units import OwnedUnit, Unit


class LeaseLost(LogError):
    """This incarnation of the node is not a member any more: another node has fenced it, or it has
    left. What its process has in memory counts no more."""


class NodeIdInUse(LogError):
    """Another process has a lease with this node id. `left_ms`: how long that still lasts."""

    def __init__(self, node_id: int, left_ms: int) -> None:
        super().__init__(f"node id {node_id} is in use")
        self.left_ms = left_ms


class NodeTooOld(LogError):
    """The cluster works at a level that this node does not know. `str()` is one line."""


class NodeFacts(Struct, frozen=True):
    """What a node tells of itself. `listeners`: (name, host, port), the first one is the one that
    other nodes use unless `inter_broker` names another. `version`: of groupd. `level`: the newest
    level of the cluster's features that the node can work at. `admin`: the URL of its admin port,
    empty where other machines do not reach that. `lease_ms`: how long its leases last. `process`:
    differs from one process to the next, so that a process knows the lease again that it got when
    the answer to a `join` was lost."""

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
    database's clock, not above 0 when it is over. `applied`: the version of the catalogue that the
    node works with. `draining`: it is to have no units, because somebody has said so or because it
    is about to leave."""

    facts: NodeFacts
    incarnation: int
    lease_left_ms: int
    applied: int
    draining: bool = False


class UnitState(Struct, frozen=True):
    """`owner`: the node that may serve the unit, None: nobody. `wanted`: the node that is to serve
    it. `epoch`: how often the unit was acquired; that of the present owner."""

    unit: Unit
    owner: int | None
    wanted: int | None
    epoch: int


class ClusterState(Struct, frozen=True):
    """What the database says in one moment. `units` None: nothing has changed since the version
    that was asked about. `timeline`: changes when a standby was promoted, so that what was
    acknowledged may be lost and all memory is to be dropped. `catalogue`: the version of the newest
    change of the catalogue. `level`: of the features that all nodes know."""

    nodes: tuple[NodeState, ...]
    units: tuple[UnitState, ...] | None
    units_version: int
    catalogue: int
    timeline: str
    level: int = 1


Plan = Callable[[Sequence[NodeState], Sequence[UnitState]], Mapping[Unit, int]]
"""(members whose lease lasts, units) -> the node that each unit is wanted on. Pure. Units that are
missing in the result are wanted on no node."""


class Membership(Protocol):
    """One node's side of the shared tables. All methods but `start`, `close` and `listen` raise
    LogUnavailable; `renew` and those below it, but for `drain`, also raise LeaseLost."""

    async def draw_node_id(self) -> int:
        """The lowest node id that no node has ever had, from 0 on; no other node gets it."""
        ...

    async def join(self, facts: NodeFacts, lease_ms: int) -> int:
        """Become a member with a new incarnation, which is returned. Units of an earlier
        incarnation of this node are free then. Raises NodeIdInUse while another process has the
        lease, and NodeTooOld."""
        ...

    async def renew(self, lease_ms: int, applied: int, known_units: int) -> ClusterState:
        """Extend the lease by `lease_ms` from now and tell which version of the catalogue the node
        works with. `known_units`: the `units_version` that the caller has seen."""
        ...

    async def plan(self, decide: Plan, counts: Mapping[str, int]) -> ClusterState:
        """Fence every node whose lease is over, free its units, and write what `decide` wants. Once
        all members know a newer level, it is that of the cluster, for good.
        Nodes do this one at a time. `counts`: how many units of each kind there are to be; missing
        ones are made."""
        ...

    async def acquire(self) -> tuple[UnitState, ...]:
        """Take every unit that is wanted on this node and has no owner. Returns all units of this
        node, with their epochs."""
        ...

    async def release(self, units: Sequence[OwnedUnit]) -> None:
        """Give up units that are owned at these epochs; others stay as they are, so that a release
        that comes late frees nothing that was acquired anew. Nothing is read or written for the
        units any more."""
        ...

    async def drain(self, node_id: int, draining: bool) -> bool:
        """Say that a node, this or another, is to have no units, or may have some again. False:
        there is no such node."""
        ...

    async def retire(self) -> None:
        """Say that this node is about to leave, so it is to have no units until it joins again."""
        ...

    async def leave(self) -> None:
        """Release everything and end the lease."""
        ...

    async def start(self) -> None:
        """Connect. Raises StoreRefused for a role that may not ask what is needed."""
        ...

    async def close(self) -> None: ...

    def listen(self, notified: Callable[[], None]) -> None:
        """Call `notified` when the tables have changed, and when that cannot be told any more.
        It comes in time in most cases; `renew` makes up for the others."""
        ...


class CatalogueChangesSince(Struct, frozen=True):
    """What has changed in the catalogue up to `version`: (kind, key) of each entry, in order, of
    those kinds that `CatalogueJournal` names. `complete` False: there is too much to tell, or it
    is forgotten, so everything is to be read."""

    version: int
    entries: tuple[tuple[str, str], ...] = ()
    complete: bool = True


class CatalogueBehind(LogError):
    """Another node has changed the catalogue since this one read it, so nothing was written: read
    what has changed, then try again."""


class CatalogueJournal(Protocol):
    """The order of all changes of the catalogue. The kinds and keys of entries: "topic" and the hex
    digits of its id; "config" and a JSON list of type, name and key; "security" and a JSON list of
    kind and key."""

    @property
    def applied(self) -> int:
        """The version that is in the memory of this node; -1 after `forget`."""
        ...

    @property
    def written(self) -> int:
        """The newest version that this node has written itself. The next write takes the version
        after this and `applied`, and fails if another node has taken that."""
        ...

    async def changes(self) -> CatalogueChangesSince:
        """What is newer than `applied`. Raises LogUnavailable."""
        ...

    def advance(self, version: int) -> None:
        """Everything up to `version` is applied here."""
        ...

    def forget(self) -> None:
        """Nothing is applied here any more: the database may have lost what was."""
        ...
