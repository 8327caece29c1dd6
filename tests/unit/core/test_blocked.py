"""`blocked` says in words what a group waits for, in every kind of situation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from tests.support.inspected import inspect_group
from tests.unit.classic_group.harness import Bench
from tests.unit.consumer_group.harness import FOO, GROUP, Shard, topic

Situation = tuple[ShardState, Instant]


def blocked(state: ShardState, now: Instant, group: str) -> list[tuple[str, str, int | None]]:
    shown = inspect_group(state, group, now)
    assert shown is not None
    return [(entry["member_id"], entry["why"], entry["in_ms"]) for entry in shown["blocked"]]


def shard(**settings: Any) -> Shard:
    return Shard(topic("foo", FOO), **settings)


def interval() -> Shard:
    made = shard(consumer_assignment_interval_ms=15_000)
    made.beat(0)
    made.beat(2, owned={FOO: list(range(6))})
    made.beat(0, "m2")
    return made


def lingering() -> Shard:
    made = shard(consumer_target_linger_ms=5)
    made.apply(made.handle(0))
    return made


def due_with_the_next_heartbeat() -> Shard:
    made = shard()
    made.put_member("m1", assigned={FOO: {0: 10}})
    made.settle(10, m1={FOO: (0,)})
    made.beat(0, "m2")
    made.beat(-1, "m2")
    return made


def revoking() -> Shard:
    made = shard()
    made.put_member(
        "m1", state=MemberState.UNREVOKED_PARTITIONS, pending_revocation={FOO: {0: 10, 1: 10}}
    )
    made.settle(11)
    made.reload()
    made.settle(11)
    return made


def behind() -> Shard:
    made = shard()
    made.put_member("m1")
    made.settle(11)
    return made


def away() -> Shard:
    made = shard()
    made.put_member("m1", instance_id="i", member_epoch=-2)
    made.settle(10)
    return made


def expression() -> Shard:
    made = shard()
    made.apply(made.handle(0, names=[], subscribed_topic_regex="fo+"))
    return made


def grown() -> Shard:
    made = behind()
    made.settle(10)
    made.topics(topic("foo", FOO, 8))
    return made


CONSUMER: dict[str, tuple[Callable[[], Shard], list[tuple[str, str, int | None]]]] = {
    "interval": (
        interval,
        [
            (
                "",
                "the target of epoch 3 is not due yet (group.consumer.assignment.interval.ms)",
                15_000,
            )
        ],
    ),
    "linger": (
        lingering,
        [("", "parked heartbeats (1) wait for the next target", 900)],
    ),
    "due": (
        due_with_the_next_heartbeat,
        [("", "the target of epoch 12 is computed with the next heartbeat of a member", None)],
    ),
    "revoking": (
        revoking,
        [("m1", "has to confirm that it gave up foo-0 and 1 more", 60_000)],
    ),
    "behind": (behind, [("m1", "hears of the target of epoch 11 with its next heartbeat", None)]),
    "away": (away, [("m1", "left for a while: what it had is kept until its session ends", None)]),
    "expression": (
        expression,
        [("", "regular expressions are being resolved", None)],
    ),
    "grown": (grown, [("", "topics have changed: the next heartbeat makes a new target", None)]),
}


@pytest.mark.parametrize("situation", CONSUMER)
def test_what_a_consumer_group_waits_for(situation: str) -> None:
    make, expected = CONSUMER[situation]
    made = make()
    found = blocked(made.state, made.now, GROUP)
    assert [entry for entry in expected if entry not in found] == [], found


def test_a_settled_group_waits_for_nothing() -> None:
    made = shard()
    made.put_member("m1", assigned={FOO: {0: 10}})
    made.settle(10, m1={FOO: (0,)})
    assert blocked(made.state, made.now, GROUP) == []


def test_a_classic_group_from_its_first_member_to_stable() -> None:
    bench = Bench(group_initial_rebalance_delay_ms=3000)

    def waits() -> list[tuple[str, str, int | None]]:
        return blocked(bench.state, bench.now, "g")

    member = bench.replies[bench.join()].member_id
    given = (member, "was given its id and has to join with it", 10_000)
    assert waits() == [given]
    first = bench.join(member)
    more = "waits for more members (group.initial.rebalance.delay.ms)"
    assert waits() == [("", more, 3000)]
    bench.advance(6000)
    assert bench.replies[first].generation_id == 1
    leader = "has to send SyncGroup, with the assignment: it leads"
    assert waits() == [(member, leader, 27_000)]
    bench.hold = True
    bench.sync(member, 1, {member: b"a"})
    assert waits() == [("", "the assignment is being written", None)]
    bench.commit()
    assert waits() == []

    bench.hold = False
    other = bench.replies[bench.join()].member_id
    bench.join(other)
    assert waits() == [(member, "has to send JoinGroup", 30_000)]
