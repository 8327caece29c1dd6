"""What a node makes of the states that the database tells of."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from groupd.coordinator.cluster.view import AnotherTimeline, ClusterView
from groupd.storage.cluster import ClusterState, NodeFacts, NodeState, UnitState
from groupd.storage.units import PARTITIONS, Unit
from tests.support.manual_clock import ManualClock

UNIT = Unit(PARTITIONS, 0)


def state(*nodes: NodeState, version: int = 1, timeline: str = "1") -> ClusterState:
    return ClusterState(nodes, (), version, 5, timeline)


def node(node_id: int, left_ms: int, applied: int) -> NodeState:
    return NodeState(NodeFacts(node_id), 1, left_ms, applied)


@pytest.fixture
def view() -> ClusterView:
    return ClusterView(1, ManualClock(), {})


def test_a_member_is_behind_until_it_is_fenced(view: ClusterView) -> None:
    """Its renewal may be on its way to the database, and its answer on the way back."""
    view.see(state(node(1, 100, 0), node(2, 0, 4)))
    assert view.live_others == []
    assert view.behind(5)
    assert not view.behind(4)
    view.see(state(node(1, 100, 0)))
    assert not view.behind(5)
    assert view.behind(6)  # this node has not seen it itself


@pytest.mark.parametrize(("timeline", "version"), [("2", 3), ("1", 1)])
def test_another_server_is_noticed(view: ClusterView, timeline: str, version: int) -> None:
    """By its timeline, or because it lacks what was there: the number may be the same."""
    view.see(state(version=2))
    with pytest.raises(AnotherTimeline):
        view.see(state(version=version, timeline=timeline))
    view.forget()
    view.see(state(version=version, timeline=timeline))


@pytest.mark.parametrize(
    ("owner", "wanted", "leader", "named"),
    [
        (1, 1, 1, None),
        (1, 2, 2, None),  # this node gives it up
        (2, 3, 2, 2),  # another one does
        (None, 2, 2, None),
        (None, None, None, None),
    ],
)
def test_a_node_that_is_to_have_a_unit_is_not_named_with_an_epoch(
    view: ClusterView, owner: int | None, wanted: int | None, leader: int | None, named: int | None
) -> None:
    """The plan may change before it has the unit, and then another node has that epoch."""
    unit = UnitState(UNIT, owner=owner, wanted=wanted, epoch=7)
    view.see(replace(state(), units=(unit,)))
    assert (view.leader(UNIT), view.owner(UNIT), view.epoch(UNIT)) == (leader, named, 7)
