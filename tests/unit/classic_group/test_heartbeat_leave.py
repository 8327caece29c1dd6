"""Heartbeat, session expiry and LeaveGroup: what the scenarios of `classic_heartbeat_leave` do not
show."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.classic_group import timers
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import LeaveGroupReply, LeftMember
from tests.unit.classic_group.harness import WALL_MS, Bench, Failed

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def left(bench: Bench, *entries, **options) -> list[ErrorCode]:
    """The members' errors of a successful LeaveGroup."""
    reply = bench.replies[bench.leave(*entries, **options)]
    assert reply.error is ErrorCode.NONE
    return [member.error for member in reply.members]


def test_a_heartbeat_gives_a_full_session():
    bench = Bench()
    a, b = bench.stable(2)
    bench.advance(4000)
    assert bench.session_due_in(a) == 6000
    bench.beat(a)
    assert (bench.session_due_in(a), bench.session_due_in(b)) == (10_000, 6000)
    bench.join(b, protocols=(("range", b"new"),))
    bench.advance(1000)
    bench.beat(a)
    assert bench.session_due_in(a) == 10_000


def test_the_last_leave_is_answered_once_the_empty_group_is_durable():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.hold = True
    token = bench.leave(a)
    assert bench.parked(token)
    bench.commit()
    assert bench.replies[token] == LeaveGroupReply(members=(LeftMember(a, None, ErrorCode.NONE),))
    value = bench.log[-1].value
    assert value.current_state_timestamp_ms == WALL_MS + bench.now_ms
    assert len(bench.state.deadlines) == 0


def test_the_record_of_the_empty_group_fails():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.append_error = ErrorCode.NOT_COORDINATOR
    assert bench.replies[bench.leave(a)] == Failed(ErrorCode.NOT_COORDINATOR)
    assert (bench.state_name, bench.group.generation) == ("Empty", 2)


def test_an_empty_leave_does_nothing():
    bench = Bench()
    bench.stable(1)
    assert left(bench) == []
    assert bench.state_name == "Stable"


def test_a_parked_sync_of_a_leaving_member_is_answered():
    bench = Bench()
    _, b = bench.completing(2)
    token = bench.sync(b, 1)
    assert left(bench, b) == [ErrorCode.NONE]
    assert bench.replies[token].error is UNKNOWN
    assert bench.state_name == "PreparingRebalance"


def test_leaving_ends_the_join_phase_of_the_others():
    bench = Bench()
    a, b = bench.stable(2)
    token = bench.join(a)
    assert bench.parked(token)
    left(bench, b)
    assert bench.replies[token].generation_id == 2


def test_the_last_member_leaves_while_an_id_is_pending():
    bench = Bench()
    (a,) = bench.stable(1)
    p = bench.pending_id("P")
    left(bench, a)
    assert (bench.state_name, len(bench.log)) == ("PreparingRebalance", 2)
    bench.advance(1)
    assert (bench.state_name, bench.group.generation) == ("Empty", 2)
    assert p in bench.group.pending_members


def test_a_static_member_may_omit_its_instance_id():
    bench = Bench()
    i1, _ = bench.static_stable(2)
    assert left(bench, i1) == [ErrorCode.NONE]


def test_a_session_that_was_extended_by_another_timer_of_the_same_instant():
    bench = Bench()
    a, b = bench.stable(2)
    assert a < b, "equal deadlines fire in the order of their keys"
    token = bench.join(b, protocols=(("range", b"new"),))
    bench.advance(10_000)
    # A's session ended the join phase, which gave B a new one before its old one came up.
    assert bench.replies[token].generation_id == 2
    assert set(bench.group.members) == {b}
    assert bench.session_due_in(b) == 10_000


def test_a_removed_member_owes_no_sync():
    bench = Bench()
    a, b = bench.completing(2)
    bench.group.remove(b)
    assert bench.group.pending_sync == {a}


@pytest.mark.parametrize("kind", ["classic-session", "classic-join", "classic-sync"])
def test_a_stale_timer_does_nothing(kind):
    bench = Bench()
    (a,) = bench.stable(1)
    for member_id in ("gone", ""):
        bench.settle(timers.expire(bench.state, (kind, "g", member_id), bench.now))
        bench.settle(timers.expire(bench.state, (kind, "nowhere", member_id), bench.now))
    assert bench.state_name == "Stable"
    assert bench.beat(a) is ErrorCode.NONE
