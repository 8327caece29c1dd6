"""Static members: what the scenarios of `classic_static` do not show."""

from __future__ import annotations

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply
from tests.unit.classic_group.harness import Bench

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_INSTANCE_ID


def test_a_restarted_member_is_answered_once_its_new_id_is_durable():
    bench = Bench()
    _, old = bench.static_stable(2)
    bench.hold = True
    token = bench.join(instance="i2", client="restarted", session=20_000)
    assert bench.parked(token)
    assert bench.session_due_in(bench.group.static_members["i2"]) == 10_000
    bench.commit()
    new = bench.replies[token].member_id
    logged = {m.group_instance_id: m for m in bench.log[-1].value.members}
    assert logged["i2"].client_id == "c", "the client id is the old process's"
    assert bench.session_due_in(old) is None
    assert bench.session_due_in(new) == 20_000


def test_changed_bytes_alone_start_no_rebalance():
    bench = Bench()
    bench.static_stable(1)
    token = bench.join(instance="i1", protocols=(("range", b"new"),))
    assert bench.replies[token].generation_id == 1
    assert bench.log[-1].value.members[0].subscription == b"new"


@pytest.mark.parametrize("instance", ["i1", "i2"], ids=["leader", "follower"])
def test_a_replacement_that_cannot_be_written_leaves_the_old_member(instance):
    bench = Bench()
    leader, _ = ids = bench.static_stable(2)
    old = ids[instance == "i2"]
    bench.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    token = bench.join(
        instance=instance, protocols=(("range", b"new"),), session=20_000, rebalance=40_000
    )
    reply = bench.replies[token]
    assert (reply.error, reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert (reply.generation_id, reply.leader) == (1, leader)
    assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
    assert bench.beat(old, instance=instance) is ErrorCode.NONE
    member = bench.group.members[old]
    assert (member.metadata("range"), member.session_timeout_ms) == (b"r", 10_000)
    assert member.rebalance_timeout_ms == 30_000
    assert bench.group.leader_id == leader
    assert set(bench.group.members) == set(ids)
    sessions = [key[2] for key, _ in bench.state.deadlines.items() if key[0] == "classic-session"]
    assert set(sessions) == set(ids)


@pytest.mark.parametrize("code", [None, ErrorCode.NOT_COORDINATOR], ids=["commit", "failure"])
def test_a_replacement_overtaken_by_a_rebalance_stays_parked(code):
    bench = Bench()
    i1, _ = bench.static_stable(2)
    bench.hold = True
    token = bench.join(instance="i2")
    bench.leave(("", "i1"), ("", "nobody"))
    assert i1 not in bench.group.members
    # i2's Join is part of the rebalance, which it completes alone.
    assert bench.replies[token].generation_id == 2
    bench._end_append(code)
    assert bench.replies[token].member_id in bench.group.members


@pytest.mark.parametrize("code", [None, ErrorCode.NOT_COORDINATOR], ids=["commit", "failure"])
def test_a_replacement_still_parked_in_the_new_rebalance(code):
    bench = Bench()
    i1, _ = bench.static_stable(2)
    bench.hold = True
    token = bench.join(instance="i2")
    bench.pending_id("P")
    bench.enter("Q")
    assert bench.state_name == "PreparingRebalance"
    bench._end_append(code)
    assert bench.parked(token)
    bench.advance(30_000, beating=[i1])
    assert bench.replies[token].generation_id == 2


def test_a_second_restart_before_the_first_is_written():
    bench = Bench()
    bench.static_stable(2)
    bench.hold = True
    first = bench.join(instance="i2")
    between = bench.group.static_members["i2"]
    second = bench.join(instance="i2")
    assert bench.replies[first] == JoinGroupReply(FENCED, member_id=between)
    bench.commit()
    assert bench.parked(second)
    bench.commit()
    assert bench.replies[second].member_id == bench.group.static_members["i2"]


def test_two_restarts_that_cannot_be_written():
    bench = Bench()
    _, old = bench.static_stable(2)
    bench.hold = True
    bench.join(instance="i2")
    second = bench.join(instance="i2")
    third = bench.join(instance="i2")
    bench.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    bench.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bench.replies[second].error is FENCED
    bench.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bench.replies[third].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.group.static_members["i2"] == old
    assert bench.beat(old, 1, instance="i2") is ErrorCode.NONE


def test_of_two_restarts_only_the_first_can_be_written():
    bench = Bench()
    bench.static_stable(2)
    bench.hold = True
    bench.join(instance="i2")
    between = bench.group.static_members["i2"]
    bench.join(instance="i2")
    bench.commit()
    bench.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bench.group.static_members["i2"] == between


def test_a_restarted_member_must_still_sync():
    bench = Bench()
    tokens = [bench.join(instance=name) for name in ("i1", "i2")]
    bench.end_initial_rebalance()
    i1 = bench.replies[tokens[0]].member_id
    bench.sync(i1, 1, {})
    new = bench.replies[bench.join(instance="i2")].member_id
    bench.advance(30_000, beating=[i1, new])
    assert (bench.state_name, set(bench.group.members)) == ("PreparingRebalance", {i1})
    assert bench.beat(new) is UNKNOWN


def test_an_absent_leader_hands_over_to_one_who_is_there():
    bench = Bench()
    i1, i2 = bench.static_stable(2, session=60_000)
    token = bench.join(i2, protocols=(("range", b"new"),))
    bench.advance(30_000)
    assert bench.replies[token].leader == i2
    assert i1 in bench.group.members
