"""The rebalances of a group out of the events that its shard really makes."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import Event, EventKind, Outcome
from groupd.coordinator.history.rebalance_fold import rebalance_steps
from groupd.coordinator.history.rebalance_text import UNKNOWN_CAUSE, rebalance_rows
from groupd.coordinator.runtime.timeline import Timeline
from tests.unit.classic_group.harness import Bench
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic

Story = dict[str, Any]


def rebalances(timeline: Timeline, group: str = "g", state: str | None = None) -> list[Story]:
    """The newest first."""
    return rebalance_rows(run_through(rebalance_steps(timeline.inputs(group), state)))


class ToldShard(Shard):
    """A consumer group whose events are kept."""

    def __init__(self) -> None:
        super().__init__(topic("foo", FOO, 4))
        self.timeline = Timeline()

    def apply(self, outcome: Outcome) -> None:
        super().apply(outcome)
        self.timeline.add(outcome.events, self.now.wall_ms)

    def stories(self) -> list[Story]:
        """The oldest rebalance first."""
        return rebalances(self.timeline, GROUP, self.group.state_name())[::-1]


class ToldBench(Bench):
    """A classic group whose events are kept."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        super().__init__()

    def settle(self, outcome: Outcome) -> None:
        super().settle(outcome)
        self.timeline.add(outcome.events, self.now.wall_ms)

    def stories(self) -> list[Story]:
        return rebalances(self.timeline)[::-1]


@pytest.fixture
def two() -> ToldShard:
    """m1 has everything, and m2 has joined: m1 is to revoke two partitions."""
    shard = ToldShard()
    shard.beat(0, "m1", client_id="one")
    shard.advance(10_000)
    shard.beat(0, "m2", client_id="two")
    shard.advance(1000)
    shard.beat(2, "m1", client_id="one")
    return shard


def confirm(shard: ToldShard) -> None:
    """m1 revokes what it has to, and m2 is assigned it."""
    shard.beat(2, "m1", owned={FOO: [0, 2]}, client_id="one")
    shard.advance(100)
    shard.beat(3, "m2", owned={}, client_id="two")


def test_the_first_member_of_a_group(two: ToldShard) -> None:
    first = two.stories()[0]
    start_ms = two.now.wall_ms - 11_000
    assert (first["started_ms"], first["ended_ms"]) == (start_ms, start_ms)
    assert (first["epoch"], first["moved_partitions"]) == (2, 4)
    assert first["cause"] == "member m1 (client one) joined"
    assert first["sentence"] == "Member m1 (client one) joined. 4 partitions moved; it took 0 ms."
    assert [step["kind"] for step in first["steps"]][:3] == [
        "group-created",
        "member-joined",
        "group-epoch-bumped",
    ]


def test_a_rebalance_that_waits_for_a_member(two: ToldShard) -> None:
    _, story = two.stories()
    assert story["ended_ms"] is None
    assert story["sentence"] == (
        "Member m2 (client two) joined. 0 partitions moved so far; it is not over yet."
    )
    assert story["steps"][-1] == {
        "timestamp_ms": two.now.wall_ms,
        "kind": "partitions-revoking",
        "member_id": "m1",
        "client_id": "one",
        "text": "is to revoke foo-1, foo-3 within 1 min",
    }


def test_who_took_longest_to_give_partitions_up(two: ToldShard) -> None:
    two.advance(4000)
    confirm(two)
    _, story = two.stories()
    assert story["ended_ms"] - story["started_ms"] == 5100
    assert story["moved_partitions"] == 2
    assert story["sentence"] == (
        "Member m2 (client two) joined. 2 partitions moved; it took 5 s. "
        "Member m1 (client one) took longest to revoke partitions: 5 s."
    )
    assert rebalances(two.timeline, GROUP)[0] == story, "the events alone tell that it is over"


def test_a_member_that_does_not_give_up_is_fenced(two: ToldShard) -> None:
    for _ in range(2):
        two.advance(30_000)
        two.fire()
        two.beat(3, "m2", client_id="two")
        if "m1" in two.group.members:
            two.beat(2, "m1", client_id="one")
    _, overtaken, last = two.stories()
    assert last["cause"] == (
        "member m1 (client one) was fenced: partitions not revoked within 60000 ms"
    )
    assert overtaken["ended_ms"] == last["started_ms"]
    assert overtaken["sentence"] == (
        "Member m2 (client two) joined. "
        "The next rebalance started before this one was over; it took 1 min 1 s."
    )
    assert last["sentence"].endswith("4 partitions moved; it took 0 ms.")


def test_the_last_member_leaves_and_the_next_one_comes_much_later(two: ToldShard) -> None:
    confirm(two)
    two.beat(-1, "m1")
    two.beat(3, "m2", client_id="two")
    two.beat(-1, "m2")
    emptied = two.stories()[-1]
    assert emptied["sentence"] == (
        "Member m2 (client two) left: the member asked to leave. The group has no members any more."
    )
    two.advance(3_600_000)
    two.beat(0, "m3", client_id="three")
    *_, before, last = two.stories()
    assert before == emptied
    assert last["cause"] == "member m3 (client three) joined"
    assert last["started_ms"] == last["ended_ms"] == two.now.wall_ms


def test_a_timeline_that_begins_in_the_middle(two: ToldShard) -> None:
    two.timeline = Timeline()
    confirm(two)
    (story,) = two.stories()
    assert story["cause"] == UNKNOWN_CAUSE
    assert story["moved_partitions"] == 2
    assert story["ended_ms"] == two.now.wall_ms
    two.beat(-1, "m1")
    two.beat(3, "m2")
    assert [one["cause"] for one in two.stories()] == [
        UNKNOWN_CAUSE,
        "member m1 (client one) left: the member asked to leave",
    ]


def test_topics_that_change_are_a_cause(two: ToldShard) -> None:
    confirm(two)
    two.topics(topic("foo", FOO, 6))
    two.beat(3, "m1")
    story = two.stories()[-1]
    assert story["cause"] == "topic metadata changed"
    assert story["sentence"].startswith("Topic metadata changed. ")


def test_bumps_before_the_next_target_belong_together() -> None:
    def event(kind: EventKind, member: str, epoch: int, cause: str = "", **more: Any) -> Event:
        return Event("consumer", kind, "g", member, epoch, cause, more)

    timeline = Timeline()
    for at, member in enumerate(("a", "b"), start=1):
        joined = event(EventKind.MEMBER_JOINED, member, -1, "new member")
        cause = f"member {member} joined"
        timeline.add([joined, event(EventKind.GROUP_EPOCH_BUMPED, member, at, cause)], at)
    (story,) = rebalances(timeline)
    assert story["cause"] == "member a joined; member b joined"
    assert (story["epoch"], story["ended_ms"]) == (2, None)
    assert story["sentence"].endswith("Its target assignment is not computed yet.")


def test_members_of_before_the_first_event_have_their_client_id_from_the_caller() -> None:
    given = Event(
        "consumer", EventKind.PARTITIONS_ASSIGNED, "g", "m", 3, "free", {"partitions": {}}
    )
    found = run_through(rebalance_steps([(1, [given])]))
    (story,) = rebalance_rows(found, {"m": "app"})
    assert story["steps"][0]["client_id"] == "app"
    assert story["steps"][0]["text"] == "is assigned nothing"


def test_a_classic_group() -> None:
    bench = ToldBench()
    first, second = bench.stable(2)
    start, *_ = bench.stories()
    assert start["cause"] == f"member {first} (client a) joined"
    assert start["moved_partitions"] is None
    assert start["ended_ms"] is not None
    assert "The group has 2 members in generation 1" in start["sentence"]
    bench.leave(second)
    *_, story = bench.stories()
    assert story["cause"].startswith(f"member {second} (client b) left: ")
    assert story["ended_ms"] is None
    assert story["sentence"].endswith("It is not over yet.")


def test_a_classic_group_that_loses_everybody() -> None:
    bench = ToldBench()
    bench.stable(1)
    bench.advance(400_000)
    *_, story = bench.stories()
    assert "was fenced: no heartbeat within the session timeout" in story["cause"]
    assert story["sentence"].endswith("The group has no members any more.")


def test_nothing_happened() -> None:
    timeline = Timeline()
    assert rebalances(timeline) == []
    timeline.add([Event("consumer", EventKind.OFFSETS_DELETED, "g", details={"count": 1})], 1)
    assert rebalances(timeline) == []


def test_thousands_of_partitions_are_counted_and_some_are_named() -> None:
    timeline = Timeline()
    numbers = {"partitions": {"t": list(range(20_000)), "u": [1]}}
    for member in ("a", "b"):
        given = Event("consumer", EventKind.PARTITIONS_ASSIGNED, "g", member, 3, "free", numbers)
        timeline.add([given], 1)
    steps = rebalance_steps(timeline.inputs("g"), "Stable")
    assert sum(1 for _ in steps) == 2, "other work may run after each of them"
    (story,) = rebalances(timeline, state="Stable")
    assert story["moved_partitions"] == 40_002
    assert story["steps"][0]["text"] == "is assigned t-0, t-1, t-2, t-3, t-4, and 19996 more"
