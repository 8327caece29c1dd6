"""Heartbeats that wait until one target serves all of them."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.classic_group import lookup
from groupd.coordinator.core.consumer_group import shared_target
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.large_targets import RETRY_MS
from groupd.coordinator.core.types import EventKind, Outcome
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatReply
from tests.unit.consumer_group.counted_shard import CountedShard
from tests.unit.consumer_group.harness import FOO, GROUP, Scripted, parts, shape, topic

LINGER_MS = 5
FIRST_MS = LINGER_MS * shared_target.FIRST_FACTOR
STORM_MS = LINGER_MS * shared_target.STORM_FACTOR


class WaitingShard(CountedShard):
    """A shard whose replies come later: `answers` fires the deadlines."""

    def __init__(self, partitions: int = 6, **settings: Any) -> None:
        settings.setdefault("consumer_target_linger_ms", LINGER_MS)
        super().__init__(topic("foo", FOO, partitions), **settings)
        self.expired: list[Outcome] = []
        self.answered: list[int] = []

    def answers(self) -> list[ConsumerGroupHeartbeatReply]:
        """Fires everything that is due now; its replies, in order."""
        found: list[ConsumerGroupHeartbeatReply] = []
        while keys := self.state.deadlines.pop_due(self.now.monotonic_ms):
            for key in keys:
                outcome = self.shard.expire(key, self.now)
                self.apply(outcome)
                self.expired.append(outcome)
                found += [reply for _, reply in outcome.replies]
                self.answered += [token for token, _ in outcome.replies]
        return found

    def turns(self) -> None:
        while self.tasks:
            self.turn()


def test_members_that_come_at_once_share_one_target() -> None:
    shard = WaitingShard()
    for member in ("m1", "m2", "m3"):
        outcome = shard.send(0, member)
        assert shape(outcome.records) == ["R5", "R3"]
        assert outcome.replies == []
        assert shard.answers() == []
    shard.advance(STORM_MS)
    replies = shard.answers()
    assert [reply.member_id for reply in replies] == ["m1", "m2", "m3"]
    assert {reply.member_epoch for reply in replies} == {4}
    assert [parts(reply.assignment) for reply in replies] == [
        {FOO: [0, 3]},
        {FOO: [1, 4]},
        {FOO: [2, 5]},
    ]
    (outcome,) = shard.expired
    assert shape(outcome.records) == ["R7", "R7", "R7", "R6", "R8", "R8", "R8"]
    assert shard.group.state_name() == "Stable"
    assert soft_of(shard.state).waiting_heartbeats == {}


def test_the_first_member_alone_does_not_wait_as_long_as_many() -> None:
    shard = WaitingShard()
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    (reply,) = shard.answers()
    assert parts(reply.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}
    shard.send(0, "m2")
    shard.advance(LINGER_MS)
    (reply,) = shard.answers()
    assert reply.member_epoch == 3


def test_each_change_of_the_group_prolongs_the_wait_up_to_its_end() -> None:
    shard = WaitingShard(partitions=1000)
    shard.send(0, "first")
    shard.advance(FIRST_MS)
    shard.answers()
    joins = shared_target.LINGER_MAX_MS // (LINGER_MS - 1)
    for number in range(joins):
        shard.send(0, f"m{number:04d}")
        assert shard.answers() == []
        # Never long enough for the wait to end by itself.
        shard.advance(LINGER_MS - 1)
    assert len(shard.answers()) == joins


def test_a_first_target_waits_longer_but_no_heartbeat_does() -> None:
    shard = WaitingShard(partitions=1000, consumer_large_group_size=10**9)
    answered = joins = 0
    while joins * (FIRST_MS - 1) < shared_target.FIRST_LINGER_MAX_MS:
        shard.send(0, f"m{joins:04d}")
        joins += 1
        shard.advance(FIRST_MS - 1)
        early = shard.answers()
        answered += len(early)
        if shard.group.assignment_epoch == shard.group.group_epoch:
            break
        for reply in early:
            assert (parts(reply.assignment), reply.member_epoch) == ({}, 1)
            assert reply.heartbeat_interval_ms == large_targets.COME_BACK_MS
    assert answered == joins
    assert joins * (FIRST_MS - 1) >= shared_target.FIRST_LINGER_MAX_MS


def test_a_heartbeat_that_changes_nothing_waits_and_prolongs_nothing() -> None:
    shard = WaitingShard()
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    shard.answers()
    shard.send(0, "m2")
    shard.advance(LINGER_MS - 1)
    assert shard.send(2, "m1").replies == []
    shard.advance(1)
    waited, beat = shard.answers()
    assert (waited.member_id, parts(waited.assignment)) == ("m2", {})
    # Its next heartbeat says what it has given up.
    assert (beat.member_id, beat.member_epoch, parts(beat.assignment)) == (
        "m1",
        2,
        {FOO: [0, 2, 4]},
    )


def test_without_a_linger_the_target_is_due_at_once() -> None:
    shard = WaitingShard(consumer_target_linger_ms=0)
    outcome = shard.handle(0, "m1")
    assert (shape(outcome.records), outcome.replies) == (["R5", "R3"], [])
    assert shard.due("target", "") == 0
    shard.apply(outcome)
    ((_, reply),) = shard.outcome.replies
    assert parts(reply.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}
    assert soft_of(shard.state).waiting_heartbeats == {}
    assert shard.state.deadlines.items() == [(("consumer-session", GROUP, "m1"), 46_000)]


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_only_with_a_linger_an_expression_is_resolved_while_the_target_waits(
    linger_ms: int,
) -> None:
    shard = WaitingShard(consumer_target_linger_ms=linger_ms)
    outcome = shard.handle(0, "m1", names=["foo"], subscribed_topic_regex="b.*")
    assert len(outcome.tasks) == (1 if linger_ms else 0)
    shard.apply(outcome)
    assert len(shard.tasks) == 1
    assert len(shard.outcome.replies) == (0 if linger_ms else 1)


def test_without_a_linger_a_second_change_does_not_put_the_target_off() -> None:
    shard = WaitingShard(consumer_target_linger_ms=0)
    shard.handle(0, "m1")
    shard.advance(1000)
    shard.handle(0, "m2")
    assert shard.due("target", "") == 0


def test_within_the_assignment_interval_no_heartbeat_waits() -> None:
    shard = WaitingShard(consumer_assignment_interval_ms=1000)
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    shard.answers()
    ((_, reply),) = shard.send(0, "m2").replies
    assert (reply.member_epoch, parts(reply.assignment)) == (2, {})


def test_a_member_that_left_meanwhile_is_unknown_and_the_others_get_all() -> None:
    shard = WaitingShard()
    shard.send(0, "m1")
    shard.send(0, "m2")
    shard.apply(shard.handle(-1, "m1"))
    shard.advance(STORM_MS)
    left, stays = shard.answers()
    assert left.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert parts(stays.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}


def test_when_all_have_left_no_target_is_computed() -> None:
    shard = WaitingShard()
    shard.send(0, "m1")
    shard.apply(shard.handle(-1, "m1"))
    shard.advance(FIRST_MS)
    (reply,) = shard.answers()
    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert all(not outcome.records for outcome in shard.expired)


def test_an_assignor_that_fails_fails_all_and_is_asked_again_by_the_next() -> None:
    assignor = Scripted(fails=ValueError("boom"))
    shard = WaitingShard(assignor=assignor)
    shard.send(0, "m1")
    shard.send(0, "m2")
    shard.advance(STORM_MS)
    assert [one.error for one in shard.answers()] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    (outcome,) = shard.expired
    assert outcome.records == []
    assert [event.kind for event in outcome.events] == [EventKind.ASSIGNOR_FAILED]
    assert soft_of(shard.state).waiting_heartbeats == {}
    assignor.fails, assignor.target = None, {"m1": {FOO: (0, 1, 2, 3, 4, 5)}}
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    (reply,) = shard.answers()
    assert parts(reply.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}


def test_answers_leave_in_slices() -> None:
    members = shared_target.ANSWER_MEMBERS + 1
    shard = WaitingShard(partitions=members, consumer_large_group_size=10**9)
    for number in range(members):
        shard.send(0, f"m{number:04d}")
    shard.advance(STORM_MS)
    assert len(shard.answers()) == members
    sizes = [len(outcome.replies) for outcome in shard.expired]
    assert sizes == [shared_target.ANSWER_MEMBERS, 1]


def test_slices_of_members_with_many_partitions_are_smaller() -> None:
    shard = WaitingShard(
        partitions=3 * shared_target.ANSWER_PARTITIONS, consumer_large_group_size=10**9
    )
    for member in ("m1", "m2", "m3"):
        shard.send(0, member)
    shard.advance(STORM_MS)
    shard.answers()
    assert [len(outcome.replies) for outcome in shard.expired] == [1, 1, 1]


@pytest.mark.parametrize("served", [False, True])
def test_a_shard_that_is_given_up_refuses_waiting_heartbeats(
    served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those whose target is there and whose slice has not come yet."""
    shard = WaitingShard()
    shard.send(0, "m1")
    shard.send(0, "m1")
    if served:
        monkeypatch.setattr(shared_target, "ANSWER_MEMBERS", 0)
        (key,) = shard.state.deadlines.pop_due(shard.now.monotonic_ms + FIRST_MS)
        shard.apply(shared_target.expire(shard.state, key, shard.now))
    outcome = shard.shard.unload()
    assert [token for token, _ in outcome.urgent] == [1, 2]
    assert {reply.error for _, reply in outcome.urgent} == {ErrorCode.NOT_COORDINATOR}
    assert soft_of(shard.state).waiting_heartbeats == {}


def test_members_with_waiting_heartbeats_have_their_session() -> None:
    shard = WaitingShard()
    shard.send(0, "m1")
    due = dict(filter(None, shard.state.deadlines.of_group(GROUP)))
    assert due["consumer-session", GROUP, "m1"] == shard.now.monotonic_ms + 45_000


def test_of_two_heartbeats_of_a_member_the_later_one_counts() -> None:
    shard = WaitingShard()
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    shard.answers()
    shard.send(0, "m2")
    shard.send(2, "m1")
    shard.send(2, "m1", owned={FOO: [0, 1, 2, 3, 4, 5]})
    shard.advance(LINGER_MS)
    replies = shard.answers()
    assert shard.answered == [1, 2, 4, 3]
    assert replies[1] is replies[2]
    assert parts(replies[1].assignment) == {FOO: [0, 2, 4]}
    assert shape(shard.expired[-1].records) == ["R7", "R7", "R6", "R8", "R8"]


def test_a_static_member_that_went_for_a_while_is_not_brought_back() -> None:
    shard = WaitingShard()
    shard.send(0, "m1", instance_id="i")
    shard.apply(shard.handle(-2, "m1", instance_id="i"))
    shard.advance(FIRST_MS)
    (reply,) = shard.answers()
    assert reply.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert shard.group.members["m1"].member_epoch == -2


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    shard = WaitingShard()
    shard.send(0, "m1", instance_id="i")
    shard.apply(shard.handle(-2, "m1", instance_id="i"))
    shard.send(0, "m2", instance_id="i")
    shard.advance(FIRST_MS)
    old, new = shard.answers()
    assert old.error is ErrorCode.FENCED_INSTANCE_ID
    assert parts(new.assignment) == {FOO: [0, 1, 2, 3, 4, 5]}


def test_a_heartbeat_of_a_group_that_has_become_a_classic_one_is_answered() -> None:
    shard = WaitingShard()
    shard.send(0, "m1")
    shard.apply(shard.handle(-1, "m1"))
    creation = lookup.create(shard.state, shard.state.groups[GROUP], GROUP, "", shard.now)
    group = shard.state.groups[GROUP] = creation.group  # as the replay of its record does
    assert creation.previous is not None
    shard.advance(shared_target.PATIENCE_MS)
    (reply,) = shard.answers()
    assert reply.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.state.groups[GROUP] is group


class LargeShard(WaitingShard):
    """A shard for which every group is large."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(consumer_large_group_size=0, **settings)


def test_in_a_large_group_heartbeats_wait_until_the_target_is_installed() -> None:
    shard = LargeShard()
    for member in ("m1", "m2"):
        shard.send(0, member)
    shard.advance(STORM_MS)
    assert shard.answers() == []
    shard.turns()
    replies = shard.answers()
    assert [parts(reply.assignment) for reply in replies] == [{FOO: [0, 2, 4]}, {FOO: [1, 3, 5]}]
    assert {reply.heartbeat_interval_ms for reply in replies} == {5000}
    assert soft_of(shard.state).waiting_heartbeats == {}


def test_members_that_come_while_it_is_computed_get_the_next() -> None:
    shard = LargeShard()
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    shard.answers()
    shard.turn()
    shard.send(0, "m2")
    shard.advance(FIRST_MS)
    assert shard.answers() == []
    while shard.group.assignment_epoch < 2:
        shard.turn()
    shard.turn()
    (first,) = shard.answers()
    assert (first.member_id, first.member_epoch) == ("m1", 2)
    shard.turns()
    (second,) = shard.answers()
    assert (second.member_id, second.member_epoch) == ("m2", 3)
    assert soft_of(shard.state).waiting_heartbeats == {}


def test_within_the_interval_after_it_the_others_go_on_without() -> None:
    shard = LargeShard(consumer_assignment_interval_ms=1000)
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    shard.answers()
    shard.turn()
    shard.send(0, "m2")
    shard.turns()
    shard.advance(FIRST_MS)
    first, second = shard.answers()
    assert (first.member_epoch, second.member_epoch) == (2, 2)
    assert parts(second.assignment) == {}


@pytest.mark.parametrize("slices", [0, 1, 2])
def test_no_heartbeat_waits_for_a_computation_that_was_lost(slices: int) -> None:
    shard = LargeShard()
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    shard.answers()
    for _ in range(slices):
        shard.turn()
    shard.tasks.clear()
    shard.advance(shared_target.PATIENCE_MS - FIRST_MS)
    (reply,) = shard.answers()
    assert (reply.error, parts(reply.assignment)) == (ErrorCode.NONE, {})


def test_after_a_failure_in_a_large_group_no_heartbeat_waits() -> None:
    shard = LargeShard(assignor=Scripted(fails=ValueError("boom")))
    shard.send(0, "m1")
    shard.advance(FIRST_MS)
    shard.answers()
    shard.turns()
    (reply,) = shard.answers()
    assert (reply.error, parts(reply.assignment)) == (ErrorCode.NONE, {})
    ((_, reply),) = shard.send(0, "m2").replies
    assert reply.error is ErrorCode.NONE
    shard.advance(RETRY_MS)
    assert shard.send(1, "m1").replies == []
    assert soft_of(shard.state).waiting_heartbeats.keys() == {GROUP}
