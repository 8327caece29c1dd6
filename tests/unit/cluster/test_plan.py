"""The plan: balanced, with few moves, the same whoever makes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.cluster.view import plan
from groupd.storage.cluster import (
    NodeFacts,
    NodeState,
    UnitState,
)
from groupd.storage.units import (
    GROUPS,
    PARTITIONS,
    TRANSACTIONS,
    Unit,
)

COUNTS = {GROUPS: 50, TRANSACTIONS: 50, PARTITIONS: 64}


def node(node_id: int, *, draining: bool = False) -> NodeState:
    return NodeState(NodeFacts(node_id), 1, 1000, 0, draining)


def fresh(counts: Mapping[str, int] = COUNTS) -> list[UnitState]:
    return [
        UnitState(Unit(kind, number), None, None, 0)
        for kind, count in counts.items()
        for number in range(count)
    ]


def after(wanted: Mapping[Unit, int]) -> list[UnitState]:
    return [UnitState(unit, owner, owner, 1) for unit, owner in wanted.items()]


def moves(before: Mapping[Unit, int], now: Mapping[Unit, int]) -> int:
    return sum(before[unit] != now[unit] for unit in now)


def shares(wanted: Mapping[Unit, int], kind: str | None = None) -> Counter[int]:
    return Counter(owner for unit, owner in wanted.items() if kind in (None, unit.kind))


def check_balanced(nodes: Sequence[int], wanted: Mapping[Unit, int]) -> None:
    for kind in (*COUNTS, None):
        counted = [shares(wanted, kind)[one] for one in nodes]
        assert max(counted) - min(counted) <= 1, (kind, counted)


def test_three_nodes_share_everything() -> None:
    wanted = plan([node(1), node(2), node(3)], fresh())
    assert len(wanted) == sum(COUNTS.values())
    check_balanced([1, 2, 3], wanted)


def test_partitions_of_a_topic_lie_on_different_nodes() -> None:
    wanted = plan([node(1), node(2), node(3)], fresh())
    for number in range(1, COUNTS[PARTITIONS]):
        before, here = Unit(PARTITIONS, number - 1), Unit(PARTITIONS, number)
        assert wanted[before] != wanted[here], number


def test_one_more_node_gets_its_share_and_nothing_else_moves() -> None:
    two = plan([node(1), node(2)], fresh())
    three = plan([node(1), node(2), node(3)], after(two))
    check_balanced([1, 2, 3], three)
    assert moves(two, three) == shares(three)[3]


def test_the_units_of_a_dead_node_are_spread_and_the_others_stay() -> None:
    three = plan([node(1), node(2), node(3)], fresh())
    two = plan([node(1), node(3)], after(three))
    check_balanced([1, 3], two)
    assert moves(three, two) == shares(three)[2]


def test_a_draining_node_gets_nothing_until_all_drain() -> None:
    three = plan([node(1), node(2), node(3)], fresh())
    two = plan([node(1), node(2, draining=True), node(3)], after(three))
    assert shares(two)[2] == 0
    check_balanced([1, 3], two)
    last = plan([node(1, draining=True), node(3, draining=True)], after(two))
    assert last == two


def test_a_unit_without_a_plan_stays_with_its_owner() -> None:
    units = [UnitState(Unit(GROUPS, 0), 2, None, 5)]
    assert plan([node(1), node(2)], units) == {Unit(GROUPS, 0): 2}


def test_without_members_nothing_is_wanted_anywhere() -> None:
    assert plan([], fresh()) == {}


node_sets = st.sets(st.integers(0, 40), min_size=1, max_size=9)
counts = st.fixed_dictionaries({kind: st.integers(0, 70) for kind in COUNTS})


@given(st.lists(node_sets, min_size=1, max_size=5), counts, st.randoms(use_true_random=False))
def test_any_history_of_members(
    history: list[set[int]], counts: Mapping[str, int], random: Random
) -> None:
    units = fresh(counts)
    for ids in history:
        members = [node(one) for one in ids]
        random.shuffle(members)
        before = {one.unit: one.owner for one in units}
        wanted = plan(members, units)
        assert wanted.keys() == {one.unit for one in units}
        check_balanced(sorted(ids), wanted)
        units = after(wanted)
        # Planned again, in any order, it is the same.
        assert plan(sorted(members, key=lambda one: -one.facts.node_id), units) == wanted
        # A unit moves only if its node is gone, or somebody who had too few gets it.
        for kind in COUNTS:
            owned = Counter(owner for unit, owner in before.items() if unit.kind == kind)
            for unit, owner in before.items():
                if unit.kind == kind and owner in ids and wanted[unit] != owner:
                    assert owned[owner] > counts[kind] // len(ids)


def test_a_topic_is_led_by_all_nodes_also_after_one_has_come_back() -> None:
    three, two = [node(1), node(2), node(3)], [node(1), node(2)]
    units = fresh()
    for members in (three, two, three, [node(2), node(3)], three):
        wanted = plan(members, units)
        units = [UnitState(one.unit, wanted[one.unit], wanted[one.unit], 1) for one in units]
    buckets = [wanted[one.unit] for one in units if one.unit.kind == PARTITIONS]
    for start in range(len(buckets) - 12):
        assert set(buckets[start : start + 12]) == {1, 2, 3}, buckets
