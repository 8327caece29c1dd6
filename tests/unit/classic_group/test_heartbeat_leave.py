"""Heartbeat, session expiry and LeaveGroup (CL-36 to CL-45, CL-60)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.classic_group import timers
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, LeaveGroupReply, LeftMember
from tests.unit.classic_group.harness import WALL_MS, Bench, Failed

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_INSTANCE_ID


def left(bench: Bench, *entries, **options) -> list[ErrorCode]:
    """The members' errors of a successful LeaveGroup."""
    reply = bench.replies[bench.leave(*entries, **options)]
    assert reply.error is ErrorCode.NONE
    return [member.error for member in reply.members]


def test_cl_36_heartbeat_by_state():
    bench = Bench()
    assert bench.beat("x") is UNKNOWN
    p = bench.pending_id("P")
    assert bench.beat(p) is UNKNOWN
    bench.leave(p)
    (a,) = bench.completing(1)
    assert bench.beat(a) is ErrorCode.NONE
    bench.sync_all([a])
    assert bench.beat(a) is ErrorCode.NONE
    assert bench.beat(a, 0) is ErrorCode.ILLEGAL_GENERATION
    assert bench.beat("x", 1) is UNKNOWN
    bench.enter("B")
    assert bench.beat(a) is ErrorCode.REBALANCE_IN_PROGRESS


def test_cl_36_a_heartbeat_gives_a_full_session():
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


def test_cl_37_a_silent_member_is_removed():
    bench = Bench()
    a, b = bench.stable(2)
    bench.advance(9000, beating=[a])
    assert b in bench.group.members
    bench.advance(1000, beating=[a])
    assert b not in bench.group.members
    assert bench.beat(a) is ErrorCode.REBALANCE_IN_PROGRESS
    fenced = [e for e in bench.events if e.kind is EventKind.MEMBER_FENCED]
    assert [(e.member_id, e.cause) for e in fenced] == [
        (b, "no heartbeat within the session timeout")
    ]


def test_cl_38_leaving_starts_a_rebalance():
    bench = Bench()
    a, b = bench.stable(2)
    assert left(bench, b) == [ErrorCode.NONE]
    assert bench.state_name == "PreparingRebalance"
    reply = bench.replies[bench.join(a)]
    assert (reply.generation_id, [m.member_id for m in reply.members]) == (2, [a])


def test_cl_39_the_last_member_leaves():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.hold = True
    token = bench.leave(a)
    assert bench.parked(token)
    bench.commit()
    assert bench.replies[token] == LeaveGroupReply(members=(LeftMember(a, None, ErrorCode.NONE),))
    assert (bench.state_name, bench.group.generation) == ("Empty", 2)
    value = bench.log[-1].value
    assert (value.generation, value.protocol_type, value.protocol) == (2, "consumer", None)
    assert (value.leader, value.members) == (None, ())
    assert value.current_state_timestamp_ms == WALL_MS + bench.now_ms
    assert len(bench.state.deadlines) == 0


def test_cl_39_the_record_of_the_empty_group_fails():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.append_error = ErrorCode.NOT_COORDINATOR
    assert bench.replies[bench.leave(a)] == Failed(ErrorCode.NOT_COORDINATOR)
    assert (bench.state_name, bench.group.generation) == ("Empty", 2)


def test_cl_40_an_empty_group_starts_over():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.leave(a)
    _, token = bench.enter("B", protocol_type="other")
    bench.advance(2999)
    assert bench.parked(token)
    bench.advance(1)
    reply = bench.replies[token]
    assert (reply.generation_id, reply.protocol_type) == (3, "other")


@pytest.mark.parametrize("group", ["g", "nowhere"])
def test_cl_41_an_unknown_member(group):
    bench = Bench()
    bench.stable(1)
    # For v0-2 the encoder lifts this one member's error to the top.
    for version in (2, 3):
        reply = bench.replies[bench.leave("x", version=version, group=group)]
        assert reply == LeaveGroupReply(members=(LeftMember("x", None, UNKNOWN),))
    assert bench.state_name == "Stable"


def test_cl_42_entries_are_judged_in_order():
    bench = Bench()
    a, _ = bench.stable(2)
    assert left(bench, a, a, "ghost") == [ErrorCode.NONE, UNKNOWN, UNKNOWN]


def test_an_empty_leave_does_nothing():
    bench = Bench()
    bench.stable(1)
    assert left(bench) == []
    assert bench.state_name == "Stable"


def test_cl_43_a_pending_id_leaving_starts_a_rebalance():
    bench = Bench()
    bench.stable(2)
    p = bench.pending_id("P")
    assert left(bench, p) == [ErrorCode.NONE]
    assert bench.state_name == "PreparingRebalance"
    assert bench.session_due_in(p) is None


def test_cl_44_a_pending_id_leaves_an_empty_group():
    bench = Bench()
    p = bench.pending_id("P")
    assert left(bench, p) == [ErrorCode.NONE]
    assert bench.state_name == "Empty"
    assert bench.replies[bench.join(p)].error is UNKNOWN


def test_cl_45_a_parked_member_is_made_to_leave():
    bench = Bench()
    bench.stable(1)
    b, token = bench.enter("B")
    assert left(bench, b) == [ErrorCode.NONE]
    assert bench.replies[token] == JoinGroupReply(UNKNOWN)


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


def test_cl_60_an_administrator_removes_a_static_member():
    bench = Bench()
    i1, i2 = bench.static_stable(2)
    reply = bench.replies[bench.leave(("", "i1"), ("", "nobody"), (i1, "i2"))]
    assert reply.members == (
        LeftMember("", "i1", ErrorCode.NONE),
        LeftMember("", "nobody", UNKNOWN),
        LeftMember(i1, "i2", FENCED),
    )
    assert set(bench.group.members) == {i2}
    assert bench.group.static_members == {"i2": i2}


def test_cl_60_a_static_member_may_omit_its_instance_id():
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
