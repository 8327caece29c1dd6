"""What a node makes of the states that the database tells of."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from groupd.coordinator.cluster.view import AnotherTimeline, ClusterView
from groupd.storage.cluster import EPOCH_STEP, ClusterState, NodeFacts, NodeState, UnitState
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
    ("owner", "wanted", "leader", "epoch"),
    [
        (1, 1, 1, 7),
        (1, 2, 2, 8),  # this node gives it up
        (2, 3, 2, 7),  # another one does
        (None, 2, 2, 8),
        (None, None, None, 7),
    ],
)
def test_the_next_leader_has_the_next_epoch(
    view: ClusterView, owner: int | None, wanted: int | None, leader: int | None, epoch: int
) -> None:
    """A client that hears of both never takes the present leader for the next one. Once a node has
    the unit, its epoch is later than those at which others were to have it."""
    unit = UnitState(UNIT, owner=owner, wanted=wanted, epoch=7)
    view.see(replace(state(), units=(unit,)))
    assert (view.leader(UNIT), view.epoch(UNIT)) == (leader, epoch)
    assert view.epoch(UNIT) < unit.epoch + EPOCH_STEP
