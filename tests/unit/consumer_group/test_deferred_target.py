"""Targets of large groups: computed slice by slice while the group goes on changing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.consumer_group import deferred_target, regex, target_limits
from groupd.coordinator.core.consumer_group.target_limits import RETRY_MS, STALE_MS
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import EventKind, Outcome, Task
from tests.unit.consumer_group.harness import (
    BAR,
    FOO,
    GROUP,
    EvenSpread,
    Scripted,
    Shard,
    owned,
    parts,
    topic,
)
from tests.unit.consumer_group.test_invariants import ConsumerGroupMachine


class DeferringShard(Shard):
    """A shard for which every group is large; its tasks wait in `tasks` until `turn`."""

    def __init__(self, *topics: Any, **settings: Any) -> None:
        super().__init__(*topics, consumer_assignor_offload_min_size=0, **settings)
        self.tasks: list[Task] = []

    def apply(self, outcome: Outcome) -> None:
        super().apply(outcome)
        self.tasks += outcome.tasks

    def turn(self) -> Outcome:
        task = self.tasks.pop(0)
        kind = deferred_target if task.kind == deferred_target.TASK_KIND else regex
        self.apply(kind.complete(self.state, task, run_through(task.steps()), self.now))
        return self.outcome

    def turns(self) -> list[Outcome]:
        outcomes = []
        while self.tasks:
            outcomes.append(self.turn())
        return outcomes


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_limits, "SLICE_MEMBERS", 1)
    monkeypatch.setattr(target_limits, "PART_MEMBERS", 1)


@pytest.fixture
def shard() -> DeferringShard:
    return DeferringShard(topic("foo", FOO, 6))


def targets(shard: Shard) -> dict[str, Any]:
    return {member: dict(target) for member, target in shard.group.targets.items()}


def test_a_joiner_is_answered_at_once_and_told_to_come_back_soon(shard: DeferringShard) -> None:
    reply = shard.beat(0, "m1")
    assert parts(reply.assignment) == {}
    assert reply.heartbeat_interval_ms == target_limits.COME_BACK_MS
    assert "R6" not in shard.shape()
    shard.turns()
    assert targets(shard) == {"m1": {FOO: (0, 1, 2, 3, 4, 5)}}
    reply = shard.beat(reply.member_epoch, "m1")
    assert parts(reply.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}
    assert reply.heartbeat_interval_ms == 5000


def test_members_that_join_meanwhile_get_the_next_target(shard: DeferringShard) -> None:
    shard.beat(0, "m1")
    shard.turn()
    shard.beat(0, "m2")
    shard.beat(0, "m3")
    events = [e for o in shard.turns() for e in o.events if e.kind is EventKind.TARGET_INSTALLED]
    assert [event.epoch for event in events] == [2, 4]
    assert {len(target[FOO]) for target in targets(shard).values()} == {2}
    assert shard.group.assignment_epoch == shard.group.group_epoch


def test_a_computation_is_one_at_a_time(shard: DeferringShard) -> None:
    shard.beat(0, "m1")
    shard.turn()
    shard.beat(0, "m2")
    assert [task.kind for task in shard.outcome.tasks] == []


def test_targets_shrink_before_others_grow() -> None:
    shard = DeferringShard(topic("foo", FOO, 6), assignor=EvenSpread())
    shard.put_member("m1")
    shard.put_member("m2")
    shard.settle(10, m1={FOO: (0, 1, 2)}, m2={FOO: (3, 4, 5)})
    shard.beat(0, "m3")
    written: list[Any] = [one.value for o in shard.turns() for one in o.records]
    # The even spread wants m1 0,3; m2 1,4; m3 2,5: first what stays with each, then the rest.
    numbers = [[list(topic.partitions) for topic in value.topics] for value in written[:5]]
    assert numbers == [[[0]], [[4]], [[0, 3]], [[1, 4]], [[2, 5]]]


def test_a_static_member_replaced_meanwhile_gets_the_target_of_its_instance(
    shard: DeferringShard,
) -> None:
    first = shard.beat(0, "m1", instance="i")
    shard.turn()
    shard.turn()
    shard.beat(-2, "m1", instance="i")
    assert first.member_epoch
    shard.beat(0, "m2", instance="i")
    shard.turns()
    assert targets(shard) == {"m2": {FOO: (0, 1, 2, 3, 4, 5)}}


def test_a_member_that_left_meanwhile_gets_no_target(shard: DeferringShard) -> None:
    shard.beat(0, "m1")
    shard.beat(0, "m2")
    shard.turn()
    shard.beat(-1, "m1")
    shard.turns()
    assert list(targets(shard)) == ["m2"]


def test_a_failure_is_reported_once_and_the_assignor_called_again_later() -> None:
    assignor = Scripted(fails=ValueError("no"))
    shard = DeferringShard(topic("foo", FOO, 6), assignor=assignor)
    reply = shard.beat(0, "m1")
    (event,) = [event for o in shard.turns() for event in o.events]
    assert (event.kind, event.cause) == (EventKind.ASSIGNOR_FAILED, "ValueError: no")
    shard.beat(reply.member_epoch, "m1")
    assert not shard.tasks
    shard.advance(RETRY_MS)
    assignor.fails, assignor.target = None, {"m1": {FOO: (1,)}}
    shard.beat(reply.member_epoch, "m1")
    shard.turns()
    assert targets(shard) == {"m1": {FOO: (1,)}}


def test_a_computation_whose_task_was_lost_is_started_again(shard: DeferringShard) -> None:
    reply = shard.beat(0, "m1")
    shard.turn()
    shard.tasks.clear()
    shard.beat(reply.member_epoch, "m1")
    assert not shard.tasks
    shard.advance(STALE_MS)
    shard.beat(reply.member_epoch, "m1")
    shard.turns()
    assert shard.group.assignment_epoch == shard.group.group_epoch


@pytest.mark.parametrize("how", ["broker", "group"])
def test_offloading_can_be_switched_off(how: str) -> None:
    shard = DeferringShard(topic("foo", FOO, 6), consumer_assignor_offload_enable=how != "broker")
    if how == "group":
        shard.state.group_configs[GROUP] = {"consumer.assignor.offload.enable": "false"}
    assert parts(shard.beat(0, "m1").assignment) == {FOO: [0, 1, 2, 3, 4, 5]}
    assert not shard.tasks


def test_a_group_is_large_by_its_members_and_its_partitions() -> None:
    size = target_limits.MEMBER_WEIGHT + 6
    for limit, tasks in ((size + 1, 0), (size, 1)):
        shard = Shard(topic("foo", FOO, 6), consumer_assignor_offload_min_size=limit)
        shard.put_member("m1")
        shard.settle(10, m1={})
        shard.apply(shard.handle(10, "m1", names=["foo", "other"]))
        shard.beat(0, "m2")
        assert len(shard.outcome.tasks) == tasks


class DeferringMachine(ConsumerGroupMachine):
    """The invariants of small groups, and that no partition ever stands in two targets."""

    def __init__(self) -> None:
        super().__init__()
        self.deferring = DeferringShard(
            topic("foo", FOO, 3), topic("bar", BAR, 2), assignor=UniformAssignor()
        )
        self.shard = self.deferring

    @precondition(lambda self: self.deferring.tasks)
    @rule(count=st.integers(1, 6))
    def resolve(self, count: int = 1) -> None:
        for _ in range(min(count, len(self.deferring.tasks))):
            self.deferring.turn()

    @rule()
    def restart(self) -> None:
        self.deferring.tasks.clear()
        self.deferring.reload()

    @invariant()
    def no_partition_in_two_targets(self) -> None:
        if GROUP in self.shard.state.groups:
            held = [
                (topic_id, partition)
                for target in self.shard.group.targets.values()
                for topic_id, partitions in target.items()
                for partition in partitions
            ]
            assert len(held) == len(set(held))

    def teardown(self) -> None:
        self.shard.topics(topic("foo", FOO, 4), topic("bar", BAR, 2))
        self.shard.advance(11_000)
        for _ in range(12):
            for member in sorted(self.clients):
                client = self.clients[member]
                self.send(member, client.epoch, owned=owned(client.owns))
                self.deferring.turns()
            self.shard.advance(1)
        members = self.group_members()
        if members and members.keys() <= self.clients.keys():
            assert self.shard.group.state_name() == "Stable"


TestDeferredTargets = DeferringMachine.TestCase
TestDeferredTargets.settings = settings(
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
