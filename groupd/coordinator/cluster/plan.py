"""Which node is to serve which unit: a pure function of members and units.

Rules, in this order: a node that drains gets nothing, unless all nodes do; the counts of one kind
differ by at most one from node to node, and so do the counts of all kinds together; a unit stays
where it is wanted now, and those that have to move lie evenly among the others; consecutive numbers
of a kind lie on different nodes as far as the rules before allow it. All units of a kind weigh the
same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.storage.cluster import (
    NodeState,
    UnitState,
)
from groupd.storage.units import (
    Unit,
)


def plan(members: Sequence[NodeState], units: Sequence[UnitState]) -> Mapping[Unit, int]:
    """See `groupd.storage.cluster.Plan`. Without members the result is empty."""
    nodes = sorted(one.facts.node_id for one in members if not one.draining)
    if not nodes:
        # Everybody drains: nobody is left to take anything over.
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
    """Place the units of one kind, in order. `totals`: the units of each node so far, of all
    kinds; those placed here are added."""
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
        # Whoever has most room, but not the owner of the unit before where another one can.
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
    """As many of a node's units as it has room for. Those that go lie evenly among them: neighbours
    would mean that one node leads all partitions of a topic."""
    count, kept = len(units), min(room, len(units))
    return [unit for at, unit in enumerate(units) if (at + 1) * kept // count > at * kept // count]


def _room(units: Sequence[UnitState], totals: Mapping[int, int]) -> dict[int, int]:
    """How many of the units each node is to have. The nodes that have fewest of the kinds before
    get one more where the number does not divide, and among these the nodes that have more of this
    kind now, so that it need not move."""
    least, more = divmod(len(units), len(totals))
    by_node = _by_node(units)
    now = {node: len(by_node.get(node, ())) for node in totals}
    first = sorted(totals, key=lambda node: (totals[node], now[node] <= least, -now[node], node))
    return {node: least + (place < more) for place, node in enumerate(first)}
