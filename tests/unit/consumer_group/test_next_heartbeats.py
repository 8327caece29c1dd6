"""Partitions that no member has go to the members whose next heartbeat comes first (ADR 25)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from groupd.coordinator.core.assignors.uniform import UniformAssignor
from groupd.coordinator.core.consumer_group import shared_target
from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH, MemberState
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.target_assignment import (
    EARLIEST,
    LATEST,
    next_heartbeat_times,
)
from groupd.coordinator.core.types import Outcome
from tests.unit.consumer_group.counted_shard import CountedShard
from tests.unit.consumer_group.harness import FOO, parts, topic

INTERVAL_MS = 5000
LINGER_MS = 5
WAIT_MS = LINGER_MS * shared_target.FIRST_FACTOR
"""So long because the given targets have no time: the next one counts as the group's first."""
EACH = 2


class Settled(CountedShard):
    """Members "a", "b", ... at epoch 10 with two partitions each, all of them heard just now. When
    the last one, say "e", leaves, two of the others get one more partition."""

    def __init__(self, members: str = "abcde", linger_ms: int = 0, **settings: Any) -> None:
        super().__init__(
            topic("foo", FOO, EACH * len(members)),
            assignor=UniformAssignor(),
            consumer_target_linger_ms=linger_ms,
            **settings,
        )
        self.replies: dict[int, Any] = {}
        share = {name: range(EACH * at, EACH * at + EACH) for at, name in enumerate(members)}
        for name, held in share.items():
            self.put_member(name, assigned={FOO: dict.fromkeys(held, 10)})
        self.settle(**{name: {FOO: tuple(held)} for name, held in share.items()})
        self.heard(members)

    def apply(self, outcome: Outcome) -> None:
        super().apply(outcome)
        self.replies.update(outcome.replies)

    def heard(self, members: Iterable[str]) -> None:
        for member in members:
            self.send(10, member)

    def heard_in_turn(self, members: str, gap_ms: int = 1000) -> None:
        for member in members:
            self.heard(member)
            self.advance(gap_ms)

    def pass_time(self, ms: int = 0) -> None:
        """Lets time pass, then does everything that is due, and every slice."""
        self.advance(ms)
        while self.tasks or (keys := self.state.deadlines.pop_due(self.now.monotonic_ms)):
            if self.tasks:
                self.turn()
            else:
                for key in keys:
                    self.apply(self.shard.expire(key, self.now))

    def gained(self) -> str:
        """The members with more than two partitions in their target."""
        targets = self.group.targets
        return "".join(sorted(name for name in targets if len(targets[name][FOO]) > EACH))


def test_a_leavers_partitions_go_to_those_due_soonest() -> None:
    shard = Settled()
    shard.heard_in_turn("cadb")
    shard.send(-1, "e")
    shard.send(10, "c")
    assert shard.gained() == "ac"
    assert len(shard.replies[shard.tokens].assignment[0].partitions) == 3


def test_the_member_that_finds_the_target_due_comes_first() -> None:
    shard = Settled()
    shard.heard_in_turn("cadb")
    shard.send(-1, "e")
    shard.send(10, "b")
    assert shard.gained() == "bc"


def test_among_equals_it_is_the_last_ones_by_id() -> None:
    shard = Settled()
    shard.advance(1000)
    shard.send(-1, "e")
    shard.send(10, "b")
    assert shard.gained() == "bd"


@pytest.mark.parametrize("late_ms", [250, 251])
def test_members_that_should_have_been_heard_come_last(late_ms: int) -> None:
    """A member is late after 5 s and a twentieth of that."""
    shard = Settled()
    shard.advance(late_ms)
    shard.heard("bd")
    shard.advance(INTERVAL_MS - 1000)
    shard.heard("c")
    shard.advance(1000)
    shard.send(-1, "e")
    shard.send(10, "c")
    assert shard.gained() == ("ac" if late_ms == 250 else "cd")


def test_a_repeated_heartbeat_counts() -> None:
    """The steady reply renews the session without asking the core."""
    shard = Settled()
    shard.heard("a")
    lease = shard.outcome.reply_validity
    assert lease is not None
    shard.advance(1000)
    shard.heard("bc")
    shard.advance(1000)
    assert lease.renew(shard.now.monotonic_ms)
    shard.heard("d")
    shard.send(-1, "e")
    shard.send(10, "d")
    assert shard.gained() == "cd"


def test_a_fenced_members_partitions_go_the_same_way() -> None:
    shard = Settled()
    shard.advance(44_000)
    shard.heard_in_turn("badc", 100)
    shard.pass_time(600)
    assert "e" not in shard.group.members
    shard.send(10, "c")
    assert shard.gained() == "bc"


def test_new_partitions_go_the_same_way() -> None:
    shard = Settled()
    shard.heard_in_turn("badc", 100)
    shard.topics(topic("foo", FOO, 12))
    shard.send(10, "c")
    assert shard.gained() == "ce"


def test_members_that_cannot_take_partitions_come_last() -> None:
    shard = Settled("abcdefg")
    shard.put_member("a", member_epoch=LEAVE_STATIC_EPOCH, instance_id="i")
    revoking = shard.member("b")
    shard.put_member(
        "b",
        state=MemberState.UNREVOKED_PARTITIONS,
        pending_revocation=revoking.assigned,
    )
    ask = next_heartbeat_times(shard.state, shard.group, shard.now, "b")
    assert ask is not None
    assert [ask(name) for name in ("a", "b", "nobody")] == [LATEST] * 3
    due_ms = shard.now.monotonic_ms + INTERVAL_MS
    assert [ask(name) for name in "cdefg"] == [due_ms] * 5


def test_after_a_restart_it_is_the_last_ones_by_id() -> None:
    shard = Settled()
    shard.heard_in_turn("abcd")
    shard.reload()
    shard.advance(1000)
    shard.send(-1, "e")
    shard.send(10, "a")
    assert shard.gained() == "ad"


@pytest.mark.parametrize("large", [False, True])
def test_waiting_members_come_first_and_get_their_partitions_in_the_answer(large: bool) -> None:
    shard = Settled("abcdef", LINGER_MS, consumer_large_group_size=0 if large else 6000)
    shard.heard_in_turn("bacde")
    shard.send(-1, "f")
    for name in "dc":
        shard.send(10, name)
    asked = [shard.tokens - 1, shard.tokens]
    assert shard.gained() == ""
    shard.pass_time(WAIT_MS)
    assert shard.gained() == "cd"
    told = [parts(shard.replies[token].assignment) for token in asked]
    assert sorted(len(its[FOO]) for its in told if its) == [3, 3]
    assert soft_of(shard.state).waiting_heartbeats == {}


def test_after_the_waiting_member_comes_the_one_that_is_due_next() -> None:
    shard = Settled("abcde", LINGER_MS)
    shard.heard_in_turn("bacd")
    shard.send(-1, "e")
    shard.send(10, "d")
    shard.pass_time(WAIT_MS)
    assert shard.gained() == "bd"


def test_in_slices_members_that_wait_by_then_come_first() -> None:
    """What counts is which heartbeats wait when the extras are handed out."""
    shard = Settled("abcde", LINGER_MS, consumer_large_group_size=0)
    shard.heard_in_turn("bacd")
    shard.send(-1, "e")
    shard.send(10, "d")
    shard.advance(WAIT_MS)
    (target_due,) = shard.state.deadlines.pop_due(shard.now.monotonic_ms)
    shard.apply(shard.shard.expire(target_due, shard.now))
    assert shard.tasks
    shard.send(10, "c")
    shard.pass_time()
    assert shard.gained() == "cd"


def test_a_waiting_heartbeat_comes_before_one_that_is_due() -> None:
    shard = Settled("abcde", LINGER_MS)
    shard.send(-1, "e")
    shard.send(10, "b")
    ask = next_heartbeat_times(shard.state, shard.group, shard.now)
    assert ask is not None
    assert ask("b") == EARLIEST
    assert ask("a") == shard.now.monotonic_ms + INTERVAL_MS
