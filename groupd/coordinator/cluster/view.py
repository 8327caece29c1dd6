"""What a node knows of the cluster: members and units, as the database last reported them; and the
plan, which node is to serve which unit. The plan is a pure function of members and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from groupd.coordinator.runtime.clock import Clock
from groupd.storage.cluster import (
    ClusterState,
    NodeFacts,
    NodeState,
    UnitState,
)
from groupd.storage.units import (
    Unit,
)

# Plan ---------------------------------------------------------------------------------------

# The rules, in this order:
#
# A node that drains gets no unit, unless all nodes drain. The numbers of units of one kind differ
# by at most one between nodes, and so do the numbers of all units. A unit stays on the node that it
# is planned for now. The units that have to move are spread evenly among the others. Consecutive
# numbers of a kind are on different nodes as far as the other rules allow it. All units of a kind
# weigh the same.


def plan(members: Sequence[NodeState], units: Sequence[UnitState]) -> Mapping[Unit, int]:
    """Returns which node is to serve which unit, as `groupd.storage.cluster.Plan`. Without members
    the result is empty."""
    nodes = sorted(one.facts.node_id for one in members if not one.draining)
    if not nodes:
        # All nodes drain: no other node could take their units.
        nodes = sorted(one.facts.node_id for one in members)
    if not nodes:
        return {}
    wanted: dict[Unit, int] = {}
    totals = dict.fromkeys(nodes, 0)
    for kind in sorted({one.unit.kind for one in units}):
        of_kind = sorted((one for one in units if one.unit.kind == kind), key=lambda one: one.unit)
        wanted.update(_of_one_kind(of_kind, totals))
    return wanted


def _of_one_kind(units: Sequence[UnitState], totals: dict[int, int]) -> dict[Unit, int]:
    """Returns the node of each unit of one kind; `units` are in order. `totals`: how many units of
    all kinds each node has so far; the ones of this kind are added."""
    room = _room(units, totals)
    for node, most in room.items():
        totals[node] += most
    placed: dict[Unit, int] = {}
    for node, some in _by_node(units).items():
        for unit in _kept(some, room.get(node, 0)):
            placed[unit] = node
            room[node] -= 1
    for unit in [one.unit for one in units if one.unit not in placed]:
        before = placed.get(Unit(unit.kind, unit.number - 1))
        # The node that still lacks most units, but if possible not the node of the unit before.
        best = max(room, key=lambda one: (room[one] > 0, one != before, room[one], -one))
        placed[unit] = best
        room[best] -= 1
    return placed


def _by_node(units: Sequence[UnitState]) -> dict[int, list[Unit]]:
    """The units of each node by the plan so far, in order."""
    found: dict[int, list[Unit]] = {}
    for one in units:
        here = one.owner if one.wanted is None else one.wanted
        if here is not None:
            found.setdefault(here, []).append(one.unit)
    return found


def _kept(units: Sequence[Unit], room: int) -> list[Unit]:
    """Returns as many of a node's units as it may keep (`room`). The units that move are spread
    evenly: if neighbours moved, one node might lead all partitions of a topic."""
    count, kept = len(units), min(room, len(units))
    return [unit for at, unit in enumerate(units) if (at + 1) * kept // count > at * kept // count]


def _room(units: Sequence[UnitState], totals: Mapping[int, int]) -> dict[int, int]:
    """Returns how many of the units each node is to have. If the number does not divide evenly, the
    nodes with the fewest units of the earlier kinds get one more. Among these the nodes that have
    more units of this kind now come first, so that fewer units move."""
    least, more = divmod(len(units), len(totals))
    by_node = _by_node(units)
    now = {node: len(by_node.get(node, ())) for node in totals}
    first = sorted(totals, key=lambda node: (totals[node], now[node] <= least, -now[node], node))
    return {node: least + (place < more) for place, node in enumerate(first)}


# What is known ------------------------------------------------------------------------------


class AnotherTimeline(Exception):
    """The database server has been replaced by a standby. `str()`: its timeline."""


class ClusterView:
    """The newest known state of the cluster. `counts`: how many units of each kind there must be
    from a level of the cluster's features on, which is in `levels` if it is not 1."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        counts: Mapping[str, int],
        levels: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.members: tuple[NodeState, ...] = ()
        self.units: dict[Unit, UnitState] = {}
        self.units_version = -1
        self.catalogue = 0
        """The version of the newest change of the catalogue."""
        self.timeline = ""
        self.level = 1
        self._counts = counts
        self._levels = levels
        self._node_id = node_id
        self._clock = clock
        self._seen_ms = 0

    def see(self, state: ClusterState) -> bool:
        """Take a newer state. Returns whether members or units have changed. Raises
        AnotherTimeline."""
        # A lower version with the same timeline means: two standbys were promoted from one
        # timeline.
        other = self.timeline and (
            state.timeline != self.timeline or state.units_version < self.units_version
        )
        changed = state.units is not None or _facts(state.nodes) != _facts(self.members)
        self._seen_ms = self._clock.monotonic_ms()
        self.members, self.timeline, self.level = state.nodes, state.timeline, state.level
        self.catalogue = state.catalogue
        if state.units is not None:
            self.units = {one.unit: one for one in state.units}
            self.units_version = state.units_version
        if other:
            raise AnotherTimeline(state.timeline)
        return changed

    def forget(self) -> None:
        """Let the next state have all units."""
        self.units_version = -1

    def left_ms(self, one: NodeState) -> int:
        """How much longer the lease of a member lasts, as far as this node knows."""
        return one.lease_left_ms - (self._clock.monotonic_ms() - self._seen_ms)

    @property
    def others(self) -> list[NodeState]:
        """The other members: those that have neither left nor been fenced."""
        return [one for one in self.members if one.facts.node_id != self._node_id]

    @property
    def live_others(self) -> list[NodeState]:
        """The other members whose leases are not over."""
        return [one for one in self.others if self.left_ms(one) > 0]

    def _live(self) -> list[NodeState]:
        return [one for one in self.members if self.left_ms(one) > 0]

    def behind(self, version: int) -> bool:
        """Whether another member may still use an older version of the catalogue."""
        # Other nodes may have joined between this node's last look and the change.
        return self.catalogue < version or any(one.applied < version for one in self.others)

    @property
    def has_dead(self) -> bool:
        """Whether the lease of a member is over."""
        return len(self._live()) < len(self.members)

    @property
    def is_planned(self) -> bool:
        """Whether the plan in the database is the plan for the present members."""
        if self.missing or self.level < min((one.facts.level for one in self._live()), default=1):
            return False
        wanted = plan(self._live(), tuple(self.units.values()))
        return all(wanted.get(one.unit) == one.wanted for one in self.units.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """How many units of each kind there must be now."""
        return {
            kind: count
            for kind, count in self._counts.items()
            if self._levels.get(kind, 1) <= self.level
        }

    @property
    def missing(self) -> int:
        """How many units have not been created yet."""
        return max(0, sum(self.counts.values()) - len(self.units))

    def leader(self, unit: Unit) -> int | None:
        """The node that owns the unit. If no node owns it, or if this node gives it up, the node
        that is to have it next."""
        known = self.units.get(unit)
        if known is None:
            return None
        if known.owner in (None, self._node_id) and known.wanted is not None:
            return known.wanted
        return known.owner

    def epoch(self, unit: Unit) -> int:
        """The epoch at which `leader` leads. A node that is to be the next owner is named at an
        epoch between those of the present owner and of the next one. Other nodes may still name the
        present owner, and the plan may change before a node has the unit. Clients believe the later
        epoch, and some never leave a leader for another one with the same epoch (Kafka's share
        consumer; librdkafka, its pull request 5593)."""
        known = self.units.get(unit)
        if known is None:
            return 0
        return known.epoch if self.leader(unit) == known.owner else known.epoch + 1


def _facts(nodes: Sequence[NodeState]) -> list[tuple[NodeFacts, int, bool]]:
    return [(one.facts, one.incarnation, one.draining) for one in nodes]
