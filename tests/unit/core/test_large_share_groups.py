"""Targets of large share groups, computed slice by slice while the group goes on changing."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.assignors import share as share_assignor
from groupd.coordinator.core.assignors.api import GroupSpec, TopicDescriber
from groupd.coordinator.core.large_targets import COME_BACK_MS, RETRY_MS, STALE_MS
from groupd.coordinator.core.share_group import target
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import EventKind, Instant, Outcome, RequestContext, Task
from tests.support.inspected import inspect_group
from tests.unit.core.test_share_group import FOO, NOW, Shard

INTERVAL_MS = 5000
"""The heartbeat interval."""


class SlicingShard(Shard):
    """A shard for which every group is large. Its tasks wait for their `turn`."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**{"consumer_large_group_size": 0, **config})
        self.tasks: list[Task] = []
        self.events: list[EventKind] = []
        self.now = NOW

    def settle(self, outcome: Outcome) -> Outcome:
        self.tasks += outcome.tasks
        self.events += [event.kind for event in outcome.events]
        return super().settle(outcome)

    def request(self, request: Any, now: Instant = NOW) -> Outcome:
        return self.settle(self.shard.handle(RequestContext(7, 1, "client"), request, self.now))

    def turn(self) -> Outcome:
        task = self.tasks.pop(0)
        result = run_through(task.steps())
        return self.settle(self.shard.task_done(task, result, self.now))

    def turns(self) -> list[Outcome]:
        outcomes = []
        while self.tasks:
            outcomes.append(self.turn())
        return outcomes

    def pass_time(self, ms: int) -> None:
        self.now = Instant(self.now.monotonic_ms + ms, self.now.wall_ms + ms)

    def targets(self) -> dict[str, Any]:
        return {member: dict(given) for member, given in self.group().targets.items()}


@pytest.fixture
def shard(monkeypatch: pytest.MonkeyPatch) -> SlicingShard:
    """Group g with member m, which has all of foo; the target of everything later is computed in
    the smallest slices."""
    made = SlicingShard()
    made.beat(0, "foo")
    made.answer()
    made.turns()
    made.beat(1)
    assert made.targets() == {"m": {FOO: (0, 1)}}
    monkeypatch.setattr(share_assignor, "SLICE_PARTITIONS", 1)
    monkeypatch.setattr(target, "SLICE_PARTITIONS", 1)
    monkeypatch.setattr(large_targets, "PART_MEMBERS", 1)
    made.events.clear()
    return made


def test_a_heartbeat_does_not_wait_for_the_target(shard: SlicingShard) -> None:
    reply = shard.beat(0, "foo", member="n")
    assert (reply.member_epoch, reply.assignment) == (2, ())
    assert reply.heartbeat_interval_ms == COME_BACK_MS
    outcomes = shard.turns()
    assert len(outcomes) > 8
    assert max(len(outcome.records) for outcome in outcomes) == 1
    assert shard.targets() == {"m": {FOO: (0,)}, "n": {FOO: (1,)}}
    reply = shard.beat(2, member="n")
    assert (reply.member_epoch, reply.assignment[0].partitions) == (3, (1,))
    assert reply.heartbeat_interval_ms == INTERVAL_MS


def test_a_member_with_partitions_keeps_them_and_its_interval_meanwhile(
    shard: SlicingShard,
) -> None:
    shard.beat(0, "foo", member="n")
    while shard.targets()["m"] != {FOO: (0,)}:
        shard.turn()
    reply = shard.beat(2)
    assert (reply.member_epoch, reply.assignment) == (2, None)
    assert reply.heartbeat_interval_ms == INTERVAL_MS
    shard.turns()
    reply = shard.beat(2)
    assert (reply.member_epoch, reply.assignment[0].partitions) == (3, (0,))


def test_members_that_come_meanwhile_start_no_second_computation(shard: SlicingShard) -> None:
    shard.beat(0, "foo", member="n")
    shard.beat(0, "foo", member="o")
    assert len(shard.tasks) == 2, "neither of them knows of the other's task"
    shard.turn()
    shard.turn()
    assert len(shard.tasks) == 1
    assert shard.beat(0, "foo", member="p").assignment == ()
    assert len(shard.tasks) == 1
    shard.turns()
    assert shard.events.count(EventKind.TARGET_INSTALLED) == 2
    group = shard.group()
    assert group.assignment_epoch == group.group_epoch
    assert set(shard.targets()) == {"m", "n", "o", "p"}


def test_a_member_that_leaves_meanwhile_gets_no_target(shard: SlicingShard) -> None:
    shard.beat(0, "foo", member="n")
    shard.turn()
    shard.beat(-1, member="n")
    shard.turns()
    assert shard.targets() == {"m": {FOO: (0, 1)}}
    assert shard.loaded().group().targets == shard.group().targets


def test_a_group_that_becomes_empty_meanwhile_gets_no_target(shard: SlicingShard) -> None:
    shard.beat(0, "foo", member="n")
    shard.turn()
    shard.beat(-1, member="n")
    shard.beat(-1)
    written = len(shard.log)
    shard.turns()
    assert len(shard.log) == written
    assert EventKind.TARGET_INSTALLED not in shard.events


def test_a_group_that_is_made_anew_meanwhile_does_not_get_the_old_target(
    shard: SlicingShard,
) -> None:
    shard.beat(0, "foo", member="n")
    shard.turn()
    shard.state.groups["g"] = ShareGroup("g")
    written = len(shard.log)
    shard.turns()
    assert len(shard.log) == written
    del shard.state.groups["g"]
    shard.settle(shard.shard.task_done(Task(target.TASK_KIND, "g", lambda: iter(())), None, NOW))
    assert len(shard.log) == written


def test_a_member_gets_only_what_it_subscribes_to_when_the_target_comes(
    shard: SlicingShard,
) -> None:
    shard.beat(0, "foo", member="n")
    shard.turn()
    shard.beat(2, "bar", member="n")
    while shard.group().assignment_epoch == 2:
        shard.turn()
    reply = shard.beat(2, member="n")
    assert (reply.member_epoch, shard.group().members["n"].assigned) == (3, {})


def test_a_lost_computation_is_started_again(shard: SlicingShard) -> None:
    shard.beat(0, "foo", member="n")
    shard.turn()
    shard.tasks.clear()
    shard.beat(2)
    assert not shard.tasks
    shard.pass_time(STALE_MS)
    shard.beat(2)
    shard.turns()
    assert shard.group().assignment_epoch == shard.group().group_epoch


class FailingAssignor:
    name = "failing"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Any:
        raise ValueError("no")


def test_an_assignor_that_fails_fails_no_heartbeat(shard: SlicingShard) -> None:
    working, shard.state.share_assignor = shard.state.share_assignor, FailingAssignor()
    shard.beat(0, "foo", member="n")
    shard.turns()
    assert shard.events.count(EventKind.ASSIGNOR_FAILED) == 1
    assert blocked(shard)[0] == (
        "the target of epoch 3: the assignor has failed and is tried again"
    )
    shard.state.share_assignor = working
    assert shard.beat(2, member="n").error == 0
    assert not shard.tasks
    shard.pass_time(RETRY_MS)
    shard.beat(2, member="n")
    shard.turns()
    assert shard.targets() == {"m": {FOO: (0,)}, "n": {FOO: (1,)}}


def test_a_computation_is_shown(shard: SlicingShard) -> None:
    shard.beat(0, "foo", member="n")
    shard.turn()
    assert blocked(shard)[0] == "the target of epoch 3 is being computed"


def blocked(shard: SlicingShard) -> list[str]:
    shown = inspect_group(shard.state, "g", shard.now)
    assert shown is not None
    return [one["why"] for one in shown["blocked"]]


def test_a_group_is_large_by_its_members_its_partitions_and_its_subscriptions() -> None:
    size = large_targets.MEMBER_WEIGHT + 1 + 2
    for limit, tasks in ((size + 1, 0), (size, 1)):
        shard = SlicingShard(consumer_large_group_size=limit)
        shard.beat(0, "foo")
        shard.answer()
        assert not shard.tasks
        shard.beat(2)
        assert len(shard.tasks) == tasks
