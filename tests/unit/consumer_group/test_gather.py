"""Heartbeats that are parked until one target serves all of them."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.core.consumer_group import gather
from coordinator.core.shard import GroupCoordinatorShard
from coordinator.core.types import EventKind, Instant, Outcome
from protocol.errors import ErrorCode
from protocol.messages.consumer_group import ConsumerGroupHeartbeatReply
from tests.unit.consumer_group.harness import FOO, GROUP, Scripted, Shard, parts, shape, topic

LINGER_MS = 5
FIRST_MS = LINGER_MS * gather.FIRST_FACTOR


class Gathering(Shard):
    """Replies come later: `join` sends, `answers` lets the deadlines pass and collects them."""

    def __init__(self, partitions: int = 6, **settings: Any) -> None:
        settings.setdefault("consumer_target_linger_ms", LINGER_MS)
        super().__init__(topic("foo", FOO, partitions), **settings)
        self.expired: list[Outcome] = []

    def send(self, epoch: int, member: str, **fields: Any) -> Outcome:
        outcome = self.handle(epoch, member, **fields)
        self.apply(outcome)
        return outcome

    def pass_ms(self, ms: int) -> None:
        self.now = Instant(self.now.monotonic_ms + ms, self.now.wall_ms + ms)

    def answers(self) -> list[ConsumerGroupHeartbeatReply]:
        """Of everything that is due now, in order."""
        found: list[ConsumerGroupHeartbeatReply] = []
        while keys := self.state.deadlines.pop_due(self.now.monotonic_ms):
            for key in keys:
                outcome = gather.expire(self.state, key, self.now)
                self.apply(outcome)
                self.expired.append(outcome)
                found += [reply for _, reply in outcome.replies]
        return found


def test_members_that_come_at_once_share_one_target() -> None:
    shard = Gathering()
    for member in ("m1", "m2", "m3"):
        outcome = shard.send(0, member)
        assert shape(outcome.records) == ["R5", "R3"]
        assert outcome.replies == []
        assert shard.answers() == []
    shard.pass_ms(FIRST_MS)
    replies = shard.answers()
    assert [reply.member_id for reply in replies] == ["m1", "m2", "m3"]
    assert {reply.member_epoch for reply in replies} == {4}
    assert [parts(reply.assignment) for reply in replies] == [
        {FOO: [0, 3]},
        {FOO: [1, 4]},
        {FOO: [2, 5]},
    ]
    installed, answered = shard.expired
    assert shape(installed.records) == ["R7", "R7", "R7", "R6"]
    assert shape(answered.records) == ["R8", "R8", "R8"]
    assert shard.group.state_name() == "Stable"
    assert shard.state.gatherings == {}


def test_each_change_of_the_group_prolongs_the_wait_up_to_its_end() -> None:
    shard = Gathering(partitions=1000)
    joins = gather.LINGER_MAX_MS // (FIRST_MS - 1) + 1
    for number in range(joins):
        shard.send(0, f"m{number:04d}")
        assert shard.answers() == []
        # Never long enough for the wait to end by itself.
        shard.pass_ms(FIRST_MS - 1)
    assert len(shard.answers()) == joins


def test_a_heartbeat_that_changes_nothing_waits_and_prolongs_nothing() -> None:
    shard = Gathering()
    shard.send(0, "m1")
    shard.pass_ms(FIRST_MS)
    shard.answers()
    shard.send(0, "m2")
    shard.pass_ms(LINGER_MS - 1)
    assert shard.send(2, "m1").replies == []
    shard.pass_ms(1)
    waited, beat = shard.answers()
    assert (waited.member_id, parts(waited.assignment)) == ("m2", {})
    # Its next heartbeat says what it has given up.
    assert (beat.member_id, beat.member_epoch, parts(beat.assignment)) == (
        "m1",
        2,
        {FOO: [0, 2, 4]},
    )


def test_without_a_wait_targets_are_computed_at_once() -> None:
    shard = Gathering(consumer_target_linger_ms=0)
    assert parts(shard.beat(0).assignment) == {FOO: [0, 1, 2, 3, 4, 5]}
    assert shard.state.gatherings == {}


def test_within_the_assignment_interval_nobody_is_parked() -> None:
    shard = Gathering(consumer_assignment_interval_ms=1000)
    shard.send(0, "m1")
    shard.pass_ms(FIRST_MS)
    shard.answers()
    reply = shard.beat(0, "m2")
    assert (reply.member_epoch, parts(reply.assignment)) == (2, {})


def test_a_member_that_left_meanwhile_is_unknown_and_the_others_get_all() -> None:
    shard = Gathering()
    shard.send(0, "m1")
    shard.send(0, "m2")
    shard.apply(shard.handle(-1, "m1"))
    shard.pass_ms(FIRST_MS)
    left, stays = shard.answers()
    assert left.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert parts(stays.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}


def test_when_all_have_left_no_target_is_computed() -> None:
    shard = Gathering()
    shard.send(0, "m1")
    shard.apply(shard.handle(-1, "m1"))
    shard.pass_ms(FIRST_MS)
    (reply,) = shard.answers()
    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert all(not outcome.records for outcome in shard.expired)


def test_an_assignor_that_fails_fails_all_and_is_asked_again_by_the_next() -> None:
    assignor = Scripted(fails=ValueError("boom"))
    shard = Gathering(assignor=assignor)
    shard.send(0, "m1")
    shard.send(0, "m2")
    shard.pass_ms(FIRST_MS)
    assert [one.error for one in shard.answers()] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    (outcome,) = shard.expired
    assert outcome.records == []
    assert [event.kind for event in outcome.events] == [EventKind.ASSIGNOR_FAILED]
    assert shard.state.gatherings == {}
    assignor.fails, assignor.target = None, {"m1": {FOO: (0, 1, 2, 3, 4, 5)}}
    shard.send(0, "m1")
    shard.pass_ms(FIRST_MS)
    (reply,) = shard.answers()
    assert parts(reply.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}


def test_answers_leave_in_slices() -> None:
    members = gather.SLICE + 1
    shard = Gathering(partitions=members)
    for number in range(members):
        shard.send(0, f"m{number:04d}")
    shard.pass_ms(FIRST_MS)
    assert len(shard.answers()) == members
    assert [len(outcome.replies) for outcome in shard.expired] == [0, gather.SLICE, 1]


@pytest.mark.parametrize("served", [False, True])
def test_a_shard_that_goes_refuses_whoever_is_parked(served: bool) -> None:
    shard = Gathering()
    shard.send(0, "m1")
    if served:
        (key,) = shard.state.deadlines.pop_due(shard.now.monotonic_ms + FIRST_MS)
        shard.apply(gather.expire(shard.state, key, shard.now))
    outcome = GroupCoordinatorShard(shard.state).unload()
    ((_, reply),) = outcome.urgent
    assert reply.error is ErrorCode.NOT_COORDINATOR
    assert shard.state.gatherings == {}


def test_parked_members_have_their_session() -> None:
    shard = Gathering()
    shard.send(0, "m1")
    keys = [key for key, _ in shard.state.deadlines.of_group(GROUP)]
    assert keys == [("consumer-session", GROUP, "m1"), ("consumer-target", GROUP, "")]
