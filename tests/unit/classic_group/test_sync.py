"""SyncGroup, its timer and the record of an assignment (CL-25 to CL-35, CL-76)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import SyncGroupReply
from tests.unit.classic_group.harness import Bench


def errors(bench: Bench, *tokens: int) -> list[ErrorCode]:
    return [bench.replies[token].error for token in tokens]


def test_cl_25_the_leaders_sync_answers_everybody():
    bench = Bench()
    a, b = bench.completing(2)
    from_b = bench.sync(b, 1)
    assert bench.parked(from_b)
    from_a = bench.sync(a, 1, {a: b"A", b: b"B"})
    assert bench.replies[from_a] == SyncGroupReply(ErrorCode.NONE, "consumer", "range", b"A")
    assert bench.replies[from_b] == SyncGroupReply(ErrorCode.NONE, "consumer", "range", b"B")
    assert (bench.state_name, bench.group.generation) == ("Stable", 1)
    value = bench.log[-1].value
    assert (value.generation, value.protocol, value.leader) == (1, "range", a)
    assert {m.member_id: (m.subscription, m.assignment) for m in value.members} == {
        a: (b"r", b"A"),
        b: (b"r", b"B"),
    }
    assert bench.events[-1].kind is EventKind.REBALANCE_COMPLETED


def test_cl_25_nobody_is_answered_before_the_record_is_durable():
    bench = Bench()
    a, b = bench.completing(2)
    bench.hold = True
    tokens = [bench.sync(b, 1), bench.sync(a, 1, {a: b"A", b: b"B"})]
    late = bench.sync(b, 1)
    assert bench.parked(*tokens, late)
    assert bench.state_name == "CompletingRebalance"
    bench.commit()
    assert errors(bench, tokens[1], late) == [0, 0]
    assert bench.parked(tokens[0]), "superseded by the later Sync of the same member"


def test_cl_26_missing_and_unknown_members():
    bench = Bench()
    a, b = bench.completing(2)
    from_b = bench.sync(b, 1)
    bench.sync(a, 1, {a: b"A", "ghost": b"G"})
    assert bench.replies[from_b].assignment == b""
    assert [m.member_id for m in bench.log[-1].value.members] == sorted([a, b])


def test_cl_27_a_stable_groups_assignment_stands():
    bench = Bench()
    (a,) = bench.stable(1)
    written = len(bench.log)
    reply = bench.replies[bench.sync(a, 1, {a: b"other"})]
    assert (reply.error, reply.assignment) == (0, a.encode())
    assert len(bench.log) == written


def test_cl_28_fencing():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.replies[bench.join(a)]
    assert (bench.state_name, bench.group.generation) == ("CompletingRebalance", 2)
    assert errors(bench, bench.sync(a, 1)) == [ErrorCode.ILLEGAL_GENERATION]
    assert errors(bench, bench.sync("x", 2)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors(bench, bench.sync(a, 2, group="none")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    bench.pending_id("E", group="empty")
    assert errors(bench, bench.sync("x", 0, group="empty")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    bench.enter("B")
    assert errors(bench, bench.sync(a, 2)) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_cl_29_protocol_type_and_name():
    bench = Bench()
    a, _ = bench.completing(2)
    wrong = [
        bench.sync(a, 1, protocol_type="consumer", name="sticky"),
        bench.sync(a, 1, protocol_type="connect", name="range"),
    ]
    assert errors(bench, *wrong) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL] * 2
    assert errors(bench, bench.sync(a, 1, {}, protocol_type="consumer", name="range")) == [0]


def test_cl_29_older_versions_name_no_protocol():
    bench = Bench()
    (a,) = bench.completing(1)
    assert errors(bench, bench.sync(a, 1, {a: b""})) == [0]


def test_cl_30_a_follower_that_never_syncs_is_out():
    bench = Bench()
    a, b = bench.completing(2)
    bench.sync(a, 1, {a: b"A", b: b"B"})
    assert bench.beat(b) is ErrorCode.NONE
    bench.advance(29_000, beating=[a, b])
    assert b in bench.group.members
    bench.advance(1000, beating=[a, b])
    assert (bench.state_name, b in bench.group.members) == ("PreparingRebalance", False)
    assert bench.beat(b) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat(a) is ErrorCode.REBALANCE_IN_PROGRESS


def test_cl_31_a_leader_that_never_syncs_is_out():
    bench = Bench()
    a, b, c = bench.completing(3)
    tokens = [bench.sync(b, 1), bench.sync(c, 1)]
    bench.advance(30_000, beating=[a])
    assert errors(bench, *tokens) == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    assert bench.beat(a) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.state_name == "PreparingRebalance"
    assert bench.group.leader_id in (b, c)


def test_cl_32_nobody_syncs():
    bench = Bench()
    ids = bench.completing(2)
    bench.advance(30_000, beating=ids)
    assert (bench.state_name, bench.group.generation) == ("Empty", 2)
    value = bench.log[-1].value
    assert (value.generation, value.members, value.protocol) == (2, (), None)
    assert {bench.beat(member_id) for member_id in ids} == {ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_cl_33_the_assignment_cannot_be_written(code):
    bench = Bench()
    a, b = bench.completing(2)
    bench.append_error = code
    tokens = [bench.sync(b, 1), bench.sync(a, 1, {a: b"A", b: b"B"})]
    assert errors(bench, *tokens) == [code, code]
    assert bench.state_name == "PreparingRebalance"
    assert {m.assignment for m in bench.group.members.values()} == {b""}
    assert ("classic-join", "g", "") in bench.state.deadlines


def test_cl_34_the_group_moved_on_before_the_commit():
    bench = Bench()
    a, b = bench.completing(2)
    bench.hold = True
    tokens = [bench.sync(b, 1), bench.sync(a, 1, {a: b"A", b: b"B"})]
    bench.enter("C")
    assert errors(bench, *tokens) == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    bench.commit()
    assert bench.state_name == "PreparingRebalance"
    assert {m.assignment for m in bench.group.members.values()} == {b""}


def test_a_void_generation_takes_the_stored_assignments_with_it():
    bench = Bench()
    a, b = bench.stable(2)
    tokens = [bench.join(a), bench.join(b)]
    assert bench.replies[tokens[0]].generation_id == 2
    assert [m.assignment for m in bench.describe().members] == [a.encode(), b.encode()]
    bench.enter("C")
    assert {m.assignment for m in bench.describe().members} == {b""}


def test_a_repeated_leader_sync_waits_for_the_first_ones_record():
    bench = Bench()
    a, b = bench.completing(2)
    bench.hold = True
    bench.sync(a, 1, {a: b"first"})
    again = bench.sync(a, 1, {a: b"second"})
    assert len(bench.appending) == 1
    bench.commit()
    assert bench.replies[again].assignment == b"first"
    logged = {m.member_id: m.assignment for m in bench.log[-1].value.members}
    assert logged == {a: b"first", b: b""}


def test_cl_35_a_parked_sync_outlives_its_session():
    bench = Bench()
    a, b = bench.completing(2)
    from_b = bench.sync(b, 1)
    bench.advance(20_000, beating=[a])
    assert b in bench.group.members
    bench.sync(a, 1, {a: b"A", b: b"B"})
    assert errors(bench, from_b) == [0]
    assert bench.session_due_in(b) == 10_000
    bench.advance(9999, beating=[a])
    assert bench.beat(b) is ErrorCode.NONE


def test_cl_76_a_cooperative_group_rebalances_twice():
    bench = Bench()
    a, b = bench.stable(2)
    c, from_c = bench.enter("C")
    bench.join(a)
    bench.join(b, protocols=(("range", b"owned p0 p1"),))
    assert bench.replies[from_c].generation_id == 2
    for member_id in (b, c):
        bench.sync(member_id, 2)
    bench.sync(a, 2, {a: b"", b: b"p0", c: b""})
    assert bench.state_name == "Stable"
    again = bench.join(b, protocols=(("range", b"owned p0"),))
    assert bench.parked(again)
    bench.join(c)
    bench.join(a)
    assert bench.replies[again].generation_id == 3
    given = bench.sync(c, 3)
    bench.sync(b, 3)
    bench.sync(a, 3, {a: b"", b: b"p0", c: b"p1"})
    assert bench.replies[given].assignment == b"p1"
