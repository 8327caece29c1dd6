"""The console, the list of groups and the traces tell the same of every rebalance: when it began,
when and how it ended, and why."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import CLASSIC, Event, EventKind, Outcome
from groupd.coordinator.history.rebalance_fold import rebalance_steps
from groupd.coordinator.history.rebalance_text import cause_text
from groupd.coordinator.runtime import timeline
from groupd.coordinator.runtime.timeline import Timeline
from tests.unit.classic_group.harness import Bench
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic
from tests.unit.tracing.traced import MS, Traces

KINDS = (
    EventKind.GROUP_CREATED,
    EventKind.MEMBER_JOINED,
    EventKind.MEMBER_REPLACED,
    EventKind.MEMBER_LEFT,
    EventKind.MEMBER_FENCED,
    EventKind.ASSIGNOR_FAILED,
    EventKind.GROUP_CONVERTED,
    EventKind.GROUP_DELETED,
    EventKind.OFFSETS_DELETED,
    EventKind.GROUP_EPOCH_BUMPED,
)
OF_TARGETS = (
    EventKind.TARGET_INSTALLED,
    EventKind.MEMBER_EPOCH_ADVANCED,
    EventKind.PARTITIONS_REVOKING,
    EventKind.PARTITIONS_ASSIGNED,
)
OF_CLASSIC = (EventKind.REBALANCE_STARTED, EventKind.REBALANCE_COMPLETED)


class Both:
    """What two readers make of the same inputs."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.traces = Traces(per_second=10_000)

    def take(self, events: list[Event], at_ms: int) -> None:
        self.timeline.add(events, at_ms)
        self.traces.take(events, at_ms * MS)

    def check(self, group: str, now_ms: int) -> int:
        """Returns how many rebalances there are."""
        self.traces.stop(now_ms * MS)
        traced = [
            (
                root.begin_ns // MS,
                None if root.attributes["groupd.outcome"] == "stopped" else root.end_ns // MS,
                root.attributes["groupd.cause"],
                root.attributes["groupd.epoch"],
                str(root.attributes["groupd.outcome"]).replace("stopped", ""),
            )
            for root in self.traces.roots
            if root.attributes["messaging.consumer.group.name"] == group
        ]
        found = run_through(rebalance_steps(self.timeline.inputs(group)))
        told = [
            (one.since, one.until, cause_text(one), one.epoch, one.end.value if one.end else "")
            for one in found
        ]
        assert told == traced
        last = self.timeline.last_rebalance(group)
        if found and found[-1].known:
            assert last == {"timestamp_ms": told[-1][0], "cause": told[-1][2]}
        else:
            assert last is None
        return len(found)


@pytest.fixture(autouse=True)
def _nothing_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "EVENTS_PER_GROUP", 100_000)
    monkeypatch.setattr(timeline, "EVENTS_MAX", 100_000)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """An event of a group that may be of either type, and that says anything."""
    group_type = draw(st.sampled_from(("consumer", CLASSIC)))
    kind = draw(st.sampled_from(KINDS + (OF_CLASSIC if group_type == CLASSIC else OF_TARGETS)))
    member = draw(st.sampled_from(("m1", "m2", "m3")))
    details: dict[str, Any] = {
        "partitions": {"t": draw(st.lists(st.integers(0, 9), max_size=3))},
        "client_id": draw(st.sampled_from(("", "app"))),
        "complete": draw(st.booleans()),
        "members": draw(st.integers(0, 3)),
        "moved_members": 1,
        "rebalance_timeout_ms": 9,
        "replaces": draw(st.sampled_from(("m1", "m2"))),
        "assignor": "a",
        "protocol": "p",
    }
    cause = draw(st.sampled_from(("why", f"member {member} joined", "new member; why")))
    epoch = draw(st.integers(1, 3))
    return Event(group_type, kind, draw(st.sampled_from("ab")), member, epoch, cause, details)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.lists(events(), max_size=4)), max_size=30))
def test_whatever_the_events_are(inputs: list[tuple[int, list[Event]]]) -> None:
    both, now = Both(), 1
    for group in "ab":
        # Of a rebalance whose begin is missing, the console alone tells.
        both.take([Event("consumer", EventKind.GROUP_EPOCH_BUMPED, group, epoch=1, cause="x")], now)
    for passed, some in inputs:
        now += passed
        for group in "ab":
            # An input tells of one group after the other.
            both.take([one for one in some if one.group_id == group], now)
    for group in "ab":
        assert both.check(group, now + 1)


class BothOfShard(Shard):
    def __init__(self) -> None:
        super().__init__(topic("foo", FOO, 6))
        self.both = Both()

    def apply(self, outcome: Outcome) -> None:
        super().apply(outcome)
        self.both.take(outcome.events, self.now.wall_ms)


@pytest.mark.parametrize("seed", range(20))
def test_a_consumer_group_that_lives(seed: int) -> None:
    random, shard, epochs = Random(seed), BothOfShard(), dict[str, int]()
    owns: dict[str, list[int]] = {}
    for _ in range(120):
        member = f"m{random.randrange(5)}"
        if GROUP in shard.state.groups:
            epochs = {name: one.member_epoch for name, one in shard.group.members.items()}
        shard.advance(random.choice((0, 1, 500, 4000)))
        shard.fire()
        if GROUP in shard.state.groups:
            epochs = {name: one.member_epoch for name, one in shard.group.members.items()}
        if member not in epochs:
            owns[member] = []
            shard.beat(0, member, client_id=f"c-{member}")
        elif random.random() < 0.1:
            shard.beat(-1, member)
        else:
            reply = shard.beat(epochs[member], member, owned={FOO: owns[member]})
            if reply.assignment is not None:
                owns[member] = [n for one in reply.assignment for n in one.partitions]
    assert shard.both.check(GROUP, shard.now.wall_ms) > 5


class BothOfBench(Bench):
    def __init__(self) -> None:
        self.both = Both()
        super().__init__()

    def settle(self, outcome: Outcome) -> None:
        self.both.take(outcome.events, self.now.wall_ms)
        super().settle(outcome)


@pytest.mark.parametrize("seed", range(20))
def test_a_classic_group_that_lives(seed: int) -> None:
    random, bench = Random(seed), BothOfBench()
    for _ in range(120):
        members = sorted(bench.group.members) if "g" in bench.state.groups else []
        what = random.randrange(5)
        if what == 0 or not members:
            bench.enter(random.choice("abc"))
        elif what == 1:
            bench.leave(random.choice(members))
        elif what == 2 and bench.state_name == "CompletingRebalance":
            bench.sync_all(members)
        elif what == 3:
            bench.join(random.choice(members))
        else:
            bench.advance(random.choice((0, 100, 3000, 40_000)), beating=members)
    assert bench.both.check("g", bench.now.wall_ms) > 5
