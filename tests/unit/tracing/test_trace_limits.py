"""What is open is bounded, and what is left out is counted."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.types import Event, EventKind
from groupd.coordinator.history import rebalance
from groupd.coordinator.tracing import otlp
from groupd.coordinator.tracing import traces as made
from groupd.coordinator.tracing.traces import TraceRate
from tests.unit.tracing.traced import MS, Traces, begun, event, reached

SECOND = 1000 * MS


def test_the_longest_children_of_a_large_group_stay_and_those_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebalance, "PARTS_MAX", 10)
    traces = Traces()
    traces.take(begun(2, 100), MS)
    gone = event(EventKind.MEMBER_FENCED, "m0", 1, "no heartbeat within the session timeout")
    traces.take([gone], 2 * MS)
    for number in range(1, 101):
        traces.take(reached(f"m{number}", 2, foo=[number]), (2 + number) * MS)
    (root,) = traces.roots
    children = traces.below(root)
    assert len(children) == 11
    assert [span.error for span in children if span.error] == [gone.cause]
    target, *parts = children
    assert target.name == "target"
    members = {span.attributes["groupd.member.id"] for span in parts}
    assert members == {"m0", *(f"m{number}" for number in range(92, 101))}
    assert root.attributes["groupd.spans_left_out"] == 91
    assert root.attributes["groupd.partitions_assigned"] == 100


def test_so_many_members_of_a_rebalance_can_be_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebalance, "MEMBERS_MAX", 3)
    traces = Traces()
    traces.take(begun(2, 5), MS)
    for number in range(5):
        told = {"partitions": {"foo": [number]}, "rebalance_timeout_ms": 9}
        traces.take([event(EventKind.PARTITIONS_REVOKING, f"m{number}", 1, **told)], 2 * MS)
    traces.stop(3 * MS)
    (root,) = traces.roots
    assert [span.name for span in traces.below(root)] == ["target", *["revoke"] * 3]
    assert root.attributes["groupd.spans_left_out"] == 2
    assert root.attributes["groupd.partitions_revoked"] == 5


def test_the_rebalance_that_was_quiet_for_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made, "REBALANCES_MAX", 2)
    traces = Traces()
    traces.take(begun(2, 2, "a"), 1 * MS)
    traces.take(begun(2, 2, "b"), 2 * MS)
    traces.take(reached("m1", 2, "a", foo=[1]), 3 * MS)
    traces.take(begun(2, 2, "c"), 4 * MS)
    (root,) = traces.roots
    assert root.attributes["messaging.consumer.group.name"] == "b"
    assert root.attributes["groupd.outcome"] == "given up"
    assert root.end_ns == 2 * MS


def test_a_rebalance_of_which_nothing_is_heard_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made, "QUIET_NS", 10 * SECOND)
    traces = Traces()
    traces.take(begun(2, 2, "a"), 1 * SECOND)
    traces.take(begun(2, 2, "b"), 11 * SECOND)
    assert traces.roots == []
    traces.take(begun(2, 2, "c"), 12 * SECOND)
    assert [root.attributes["messaging.consumer.group.name"] for root in traces.roots] == ["a"]


def test_names_of_partitions_and_notes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "NAMES_MAX", 3)
    monkeypatch.setattr(otlp, "NOTES_MAX", 2)
    traces = Traces()
    joined: list[Event] = [event(EventKind.MEMBER_JOINED, f"m{n}") for n in range(5)]
    traces.take([*joined, *begun(2, 1)], MS)
    traces.take(reached("m1", 2, foo=list(range(1000)), bar=[1]), 2 * MS)
    (root,) = traces.roots
    assert [note.attributes["groupd.member.id"] for note in root.notes] == ["m0", "m1"]
    assign = traces.below(root)[-1]
    assert assign.attributes["groupd.partitions"] == ("foo-0", "foo-1", "foo-2")
    assert assign.attributes["groupd.partitions.count"] == 1001


def test_more_traces_than_a_second_may_have_are_counted() -> None:
    traces = Traces(per_second=2)
    for number in range(5):
        group = f"g{number}"
        traces.take([*begun(2, 1, group), *reached("m1", 2, group, foo=[1])], SECOND)
    assert len(traces.roots) == 2
    traces.take([*begun(2, 1, "late"), *reached("m1", 2, "late")], 2 * SECOND)
    assert traces.roots[-1].attributes["groupd.traces_left_out"] == 3
    traces.take([*begun(2, 1, "later"), *reached("m1", 2, "later")], 3 * SECOND)
    assert "groupd.traces_left_out" not in traces.roots[-1].attributes


def test_a_rate_saves_one_second_at_most() -> None:
    rate = TraceRate(3)
    assert [rate.admits(SECOND) for _ in range(4)] == [True, True, True, False]
    assert [rate.admits(SECOND + SECOND // 3 + 1) for _ in range(2)] == [True, False]
    assert [rate.admits(100 * SECOND) for _ in range(4)] == [True, True, True, False]


def test_a_clock_that_is_set_back_turns_no_span_round() -> None:
    traces = Traces()
    traces.take(begun(2, 1), 100 * SECOND)
    traces.take(reached("m1", 2, foo=[1]), 40 * SECOND)
    (root,) = traces.roots
    assert root.begin_ns == root.end_ns == 100 * SECOND
    # The next rebalance has the new time.
    traces.take([*begun(3, 1), *reached("m1", 3)], 41 * SECOND)
    assert traces.roots[-1].begin_ns == 41 * SECOND
