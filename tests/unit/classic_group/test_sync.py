"""SyncGroup: what the scenarios of `classic_sync` do not show."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from tests.unit.classic_group.harness import Bench


def errors(bench: Bench, *tokens: int) -> list[ErrorCode]:
    return [bench.replies[token].error for token in tokens]


def test_nobody_is_answered_before_the_assignment_is_durable():
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
