"""Rebalances of classic groups as spans, and of groups that change their type."""

from __future__ import annotations

from groupd.coordinator.core.types import EventKind
from tests.unit.tracing.traced import MS, TracedBench, Traces, begun, event


def test_a_first_rebalance_has_a_join_phase_and_the_leaders_target() -> None:
    bench = TracedBench(group_initial_rebalance_delay_ms=3_000)
    ids = bench.completing(2)
    bench.advance(700, beating=ids)
    bench.sync_all(ids)
    (root,) = bench.traces.roots
    joining = (root.end_ns - root.begin_ns) // MS - 700
    assert joining >= 3_000
    assert bench.traces.shape(root) == [
        ("join", "", 0, joining),
        ("target", "", joining, joining + 700),
    ]
    join, target = bench.traces.below(root)
    assert join.attributes == {"groupd.members": 2}
    assert target.attributes == {"groupd.assignor": "range"}
    assert root.attributes["groupd.group.type"] == "classic"
    assert (root.attributes["groupd.epoch"], root.attributes["groupd.members"]) == (1, 2)
    assert root.attributes["groupd.outcome"] == "completed"


def test_a_member_that_does_not_rejoin_fails() -> None:
    bench = TracedBench()
    a, b = bench.stable(2, session=60_000)
    bench.pending_id("late")
    bench.enter("new", session=60_000)
    bench.join(a, session=60_000)
    bench.advance(30_000)
    bench.traces.stop(bench.now.wall_ms * MS)
    root = bench.traces.roots[1]
    failed = [span for span in bench.traces.below(root) if span.error]
    assert [(span.name, span.attributes["groupd.member.id"]) for span in failed] == [("rejoin", b)]
    assert failed[0].error == "did not rejoin within the rebalance timeout"
    assert root.attributes["groupd.members_fenced"] == 1


def test_a_rebalance_without_the_leaders_assignment_is_superseded() -> None:
    bench = TracedBench()
    a, b = bench.completing(2)
    bench.advance(1_000, beating=[a, b])
    bench.leave(b)
    first = bench.traces.roots[0]
    assert first.attributes["groupd.outcome"] == "superseded"
    bench.traces.stop(bench.now.wall_ms * MS)
    second = bench.traces.roots[1]
    assert first.links == [(second.trace_id, second.span_id)]


def test_a_group_that_becomes_empty_is_done() -> None:
    bench = TracedBench()
    (a,) = bench.stable(1)
    bench.leave(a)
    assert bench.traces.outcomes() == ["completed", "empty"]
    assert bench.traces.roots[-1].attributes["groupd.members"] == 0


def test_a_conversion_without_a_rebalance_ends_what_is_open() -> None:
    traces = Traces()
    traces.take(begun(2, 2), MS)
    traces.take(
        [
            event(
                EventKind.GROUP_CONVERTED, epoch=2, cause="no member is left", group_type="classic"
            )
        ],
        2 * MS,
    )
    assert traces.outcomes() == ["converted"]


def test_a_conversion_with_a_rebalance_is_superseded_by_it() -> None:
    traces = Traces()
    traces.take(begun(2, 2), MS)
    converted = event(
        EventKind.GROUP_CONVERTED, epoch=2, cause="no member is left", group_type="classic"
    )
    started = event(
        EventKind.REBALANCE_STARTED,
        epoch=2,
        cause="the group was a consumer group",
        group_type="classic",
    )
    traces.take([converted, started], 2 * MS)
    assert traces.outcomes() == ["superseded"]
    traces.take(begun(3, 2), 3 * MS)
    traces.stop(4 * MS)
    kinds = [root.attributes["groupd.group.type"] for root in traces.roots]
    assert kinds == ["consumer", "classic", "consumer"]
