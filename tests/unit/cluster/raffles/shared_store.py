"""A store that two nodes share, in memory: node 1, which is tested, and node 2, which is only there
in the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from groupd.coordinator.catalogue_changes import NoJournal
from groupd.storage.cluster import (
    EPOCH_STEP,
    ClusterState,
    NodeFacts,
    NodeState,
    Plan,
    UnitState,
)
from groupd.storage.memory import MemoryStore
from groupd.storage.units import OwnedUnit, Unit

HERE, THERE = 1, 2
LEASE_MS = 1_000_000_000


class SharedJournal(NoJournal):
    """The catalogue never changes."""

    timeline = "1"


class SharedTables:
    """A `storage.cluster.Membership` of node 1. Node 2 takes at once what is wanted there and
    is free, and gives up at once what is wanted elsewhere."""

    def __init__(self) -> None:
        self.nodes: dict[int, NodeState] = {}
        self.units: dict[Unit, UnitState] = {}
        self.version = 0
        self.level = 1
        self.upgrade(2)

    def upgrade(self, level: int) -> None:
        """Node 2 supports this level from now on."""
        listeners = (("PLAINTEXT", "there", 9092),)
        there = NodeFacts(THERE, listeners, lease_ms=LEASE_MS, level=level)
        self.nodes[THERE] = NodeState(there, 1, LEASE_MS, 0)

    async def draw_node_id(self) -> int:
        return HERE

    async def join(self, facts: NodeFacts, lease_ms: int) -> int:
        self.nodes[HERE] = NodeState(facts, 1, LEASE_MS, 0)
        return 1

    async def renew(self, lease_ms: int, applied: int, known_units: int) -> ClusterState:
        return self._state()

    async def plan(self, decide: Plan, counts: Mapping[str, int]) -> ClusterState:
        for kind, count in counts.items():
            for number in range(count):
                unit = Unit(kind, number)
                self.units.setdefault(unit, UnitState(unit, None, None, 0))
        self.level = max(self.level, min(one.facts.level for one in self.nodes.values()))
        wanted = decide(list(self.nodes.values()), list(self.units.values()))
        self._change({unit: {"wanted": wanted.get(unit)} for unit in self.units})
        return self._state()

    async def acquire(self) -> tuple[UnitState, ...]:
        self._give(HERE)
        return tuple(one for one in self.units.values() if one.owner == HERE)

    async def release(self, units: Sequence[OwnedUnit]) -> None:
        self._change({unit: {"owner": None} for unit, _ in units})

    async def drain(self, node_id: int, draining: bool) -> bool:
        self.nodes[node_id] = replace(self.nodes[node_id], draining=draining)
        self.version += 1
        return True

    async def retire(self) -> None:
        await self.drain(HERE, True)

    async def leave(self) -> None:
        del self.nodes[HERE]

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def listen(self, notified: Callable[[], None]) -> None:
        pass

    def _state(self) -> ClusterState:
        leaving = [one for one in self.units.values() if one.owner == THERE and one.wanted != THERE]
        self._change({one.unit: {"owner": None} for one in leaving})
        self._give(THERE)
        nodes, units = tuple(self.nodes.values()), tuple(self.units.values())
        return ClusterState(nodes, units, self.version, 0, "1", self.level)

    def _give(self, node_id: int) -> None:
        free = [one for one in self.units.values() if (one.owner, one.wanted) == (None, node_id)]
        self._change(
            {one.unit: {"owner": node_id, "epoch": one.epoch + EPOCH_STEP} for one in free}
        )

    def _change(self, changes: Mapping[Unit, Mapping[str, int | None]]) -> None:
        for unit, fields in changes.items():
            self.units[unit] = replace(self.units[unit], **fields)
        self.version += 1


class SharedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.membership = SharedTables()
        self.journal = SharedJournal()
