"""Targets of large groups: computed slice by slice while the group goes on changing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.consumer_group import target_assignment
from groupd.coordinator.core.large_targets import RETRY_MS, STALE_MS
from groupd.coordinator.core.types import EventKind, Outcome, RequestToken
from groupd.protocol.errors import ApiError, ErrorCode
from tests.support.examples import examples
from tests.unit.consumer_group.counted_shard import CountedShard
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
from tests.unit.consumer_group.test_invariants import INSTANCES, Client, ConsumerGroupMachine


class DeferringShard(CountedShard):
    """A shard for which every group is large. `replies`: those that have come, by request."""

    def __init__(self, *topics: Any, **settings: Any) -> None:
        super().__init__(*topics, consumer_large_group_size=0, **settings)
        self.replies: dict[RequestToken, Any] = {}

    def apply(self, outcome: Outcome) -> None:
        super().apply(outcome)
        self.replies.update(self.outcome.replies)

    def turns(self) -> list[Outcome]:
        outcomes = []
        while self.tasks:
            self.turn()
            outcomes.append(self.outcome)
        return outcomes


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_assignment, "SLICE_MEMBERS", 1)
    monkeypatch.setattr(large_targets, "PART_MEMBERS", 1)


@pytest.fixture
def shard() -> DeferringShard:
    return DeferringShard(topic("foo", FOO, 6))


def targets(shard: Shard) -> dict[str, Any]:
    return {member: dict(target) for member, target in shard.group.targets.items()}


def test_a_joiner_is_answered_once_the_target_is_installed(shard: DeferringShard) -> None:
    shard.send(0, "m1")
    assert "R6" not in shard.shape()
    assert not shard.replies
    shard.turns()
    assert targets(shard) == {"m1": {FOO: (0, 1, 2, 3, 4, 5)}}
    reply = shard.replies[shard.tokens]
    assert parts(reply.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}
    assert reply.heartbeat_interval_ms == 5000


def test_members_that_join_meanwhile_get_the_next_target(shard: DeferringShard) -> None:
    shard.send(0, "m1")
    shard.turn()
    shard.send(0, "m2")
    shard.send(0, "m3")
    events = [e for o in shard.turns() for e in o.events if e.kind is EventKind.TARGET_INSTALLED]
    assert [event.epoch for event in events] == [2, 4]
    assert {len(target[FOO]) for target in targets(shard).values()} == {2}
    assert shard.group.assignment_epoch == shard.group.group_epoch


def test_a_computation_is_one_at_a_time(shard: DeferringShard) -> None:
    shard.send(0, "m1")
    shard.turn()
    shard.send(0, "m2")
    assert [task.kind for task in shard.outcome.tasks] == []


def test_targets_shrink_before_others_grow() -> None:
    shard = DeferringShard(topic("foo", FOO, 6), assignor=EvenSpread())
    shard.put_member("m1")
    shard.put_member("m2")
    shard.settle(10, m1={FOO: (0, 1, 2)}, m2={FOO: (3, 4, 5)})
    shard.send(0, "m3")
    written: list[Any] = [one.value for o in shard.turns() for one in o.records]
    # The even spread wants m1 0,3; m2 1,4; m3 2,5: first what stays with each, then the rest.
    numbers = [[list(topic.partitions) for topic in value.topics] for value in written[:5]]
    assert numbers == [[[0]], [[4]], [[0, 3]], [[1, 4]], [[2, 5]]]


def test_a_static_member_replaced_meanwhile_gets_the_target_of_its_instance(
    shard: DeferringShard,
) -> None:
    shard.send(0, "m1", instance="i")
    shard.turn()
    shard.turn()
    shard.send(-2, "m1", instance="i")
    shard.send(0, "m2", instance="i")
    shard.turns()
    assert targets(shard) == {"m2": {FOO: (0, 1, 2, 3, 4, 5)}}


def test_a_member_that_left_meanwhile_gets_no_target(shard: DeferringShard) -> None:
    shard.send(0, "m1")
    shard.send(0, "m2")
    shard.turn()
    shard.send(-1, "m1")
    shard.turns()
    assert list(targets(shard)) == ["m2"]


def test_a_failure_is_reported_once_and_the_assignor_called_again_later() -> None:
    assignor = Scripted(fails=ValueError("no"))
    shard = DeferringShard(topic("foo", FOO, 6), assignor=assignor)
    shard.send(0, "m1")
    (cause,) = [
        event.cause
        for outcome in shard.turns()
        for event in outcome.events
        if event.kind is EventKind.ASSIGNOR_FAILED
    ]
    assert cause == "ValueError: no"
    epoch = shard.replies[shard.tokens].member_epoch
    shard.send(epoch, "m1")
    assert shard.replies[shard.tokens].member_epoch == epoch
    assert not shard.tasks
    shard.advance(RETRY_MS)
    assignor.fails, assignor.target = None, {"m1": {FOO: (1,)}}
    shard.send(epoch, "m1")
    shard.turns()
    assert targets(shard) == {"m1": {FOO: (1,)}}


def test_a_computation_whose_task_was_lost_is_started_again(shard: DeferringShard) -> None:
    shard.send(0, "m1")
    shard.turn()
    shard.tasks.clear()
    shard.send(0, "m1")
    assert not shard.tasks
    shard.advance(STALE_MS)
    shard.send(0, "m1")
    shard.turns()
    assert shard.group.assignment_epoch == shard.group.group_epoch


def test_a_group_is_large_by_its_members_and_its_partitions() -> None:
    size = large_targets.MEMBER_WEIGHT + 6
    for limit, tasks in ((size + 1, 0), (size, 1)):
        shard = Shard(topic("foo", FOO, 6), consumer_large_group_size=limit)
        shard.put_member("m1")
        shard.settle(10, m1={})
        shard.send(10, "m1", names=["foo", "other"])
        assert len(shard.outcome.tasks) == tasks


class DeferringMachine(ConsumerGroupMachine):
    """The invariants of small groups, and that no partition ever stands in two targets. A client
    sends nothing while it waits for a reply, unless it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.deferring = DeferringShard(
            topic("foo", FOO, 3), topic("bar", BAR, 2), assignor=UniformAssignor()
        )
        self.shard = self.deferring
        self.asked: dict[RequestToken, str] = {}

    def send(self, member: str, epoch: int, **fields: Any) -> None:
        if epoch >= 0 and member in self.asked.values():
            return
        if member in INSTANCES:
            fields["instance"] = INSTANCES[member]
        try:
            self.deferring.send(epoch, member, **fields)
        except ApiError as error:
            if error.code is not ErrorCode.UNRELEASED_INSTANCE_ID:
                self.clients[member] = Client()
        else:
            self.asked[self.deferring.tokens] = member
        self.hear()

    def hear(self) -> None:
        """The clients get the replies that have come."""
        for token, reply in self.deferring.replies.items():
            member = self.asked.pop(token, None)
            if member is None:
                continue
            client = self.clients[member] = self.clients.get(member) or Client()
            if reply.error is ErrorCode.NONE:
                client.take(reply)
            else:
                self.clients[member] = Client()
        self.deferring.replies.clear()

    @precondition(lambda self: self.deferring.tasks)
    @rule(count=st.integers(1, 6))
    def resolve(self, count: int = 1) -> None:
        for _ in range(min(count, len(self.deferring.tasks))):
            self.deferring.turn()
        self.hear()

    @rule(ms=st.sampled_from([1, 11_000, 46_000]))
    def time_passes(self, ms: int) -> None:
        super().time_passes(ms)
        self.hear()

    @rule()
    def restart(self) -> None:
        self.asked.clear()
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
                self.hear()
            self.shard.advance(1)
        members = self.group_members()
        # A static member whose first reply was lost is refused until its session ends, as in Kafka.
        lost = [one for one in members.values() if one.instance_id and one.member_epoch == 0]
        if members and not lost and members.keys() <= self.clients.keys():
            assert self.shard.group.state_name() == "Stable"


TestDeferredTargets = DeferringMachine.TestCase
TestDeferredTargets.settings = examples(
    80,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
