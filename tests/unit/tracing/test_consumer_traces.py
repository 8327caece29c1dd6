"""Rebalances of consumer groups as spans: the events are those of a real shard."""

from __future__ import annotations

from groupd.coordinator.core.types import EventKind
from tests.unit.consumer_group.harness import FOO
from tests.unit.tracing.traced import MS, TracedShard, Traces, begun, event, reached


def two_members() -> TracedShard:
    """m1 has all four partitions, then m2 joins: its trace is the one that is open."""
    shard = TracedShard()
    shard.beat(0)
    shard.advance(10_000)
    shard.beat(0, "m2")
    return shard


def test_the_first_member_makes_a_trace_of_no_length() -> None:
    shard = TracedShard()
    shard.beat(0)
    (root,) = shard.traces.roots
    assert root.name == "rebalance"
    assert root.attributes == {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": "g",
        "groupd.group.type": "consumer",
        "groupd.epoch": 2,
        "groupd.cause": "member m1 (client client) joined",
        "groupd.outcome": "completed",
        "groupd.members": 1,
        "groupd.partitions_assigned": 4,
    }
    assert [note.name for note in root.notes] == ["member-joined", "group-epoch-bumped"]
    assert shard.traces.shape(root) == [("target", "", 0, 0), ("assign", "m1", 0, 0)]
    target, assign = shard.traces.below(root)
    assert target.attributes == {"groupd.assignor": "uniform", "groupd.moved_members": 1}
    assert assign.attributes["groupd.partitions"] == ("foo-0", "foo-1", "foo-2", "foo-3")


def test_a_revocation_and_who_waits_for_it() -> None:
    shard = two_members()
    shard.advance(1_000)
    shard.beat(2, "m1")
    shard.advance(2_000)
    shard.beat(2, "m1", owned={FOO: [0, 2]})
    shard.advance(500)
    shard.beat(3, "m2")
    root = shard.traces.roots[-1]
    assert shard.traces.shape(root) == [
        ("target", "", 0, 0),
        ("assign", "m2", 0, 3_500),
        ("revoke", "m1", 1_000, 3_000),
    ]
    revoke = shard.traces.below(root)[-1]
    assert revoke.attributes == {
        "groupd.member.id": "m1",
        "groupd.rebalance_timeout_ms": 60_000,
        "groupd.partitions": ("foo-1", "foo-3"),
        "groupd.partitions.count": 2,
    }
    assert (root.end_ns - root.begin_ns) // MS == 3_500
    assert root.attributes["groupd.partitions_revoked"] == 2
    assert root.attributes["groupd.partitions_assigned"] == 2
    assert shard.traces.outcomes() == ["completed", "completed"]


def test_a_member_that_does_not_revoke_is_fenced_and_its_span_fails() -> None:
    shard = two_members()
    shard.advance(1_000)
    shard.beat(2, "m1", timeout=3_000)
    shard.advance(3_000)
    shard.fire()
    root = shard.traces.roots[-1]
    assert shard.traces.shape(root)[-1] == ("revoke", "m1", 1_000, 4_000)
    revoke = shard.traces.below(root)[-1]
    assert revoke.error == "partitions not revoked within 3000 ms"
    assert root.attributes["groupd.outcome"] == "superseded"
    assert root.attributes["groupd.members_fenced"] == 1


def test_a_superseded_rebalance_links_to_the_next_one() -> None:
    shard = two_members()
    shard.advance(1_000)
    shard.beat(2, "m1")
    shard.advance(1_000)
    shard.beat(0, "m3")
    superseded = shard.traces.roots[-1]
    assert superseded.attributes["groupd.outcome"] == "superseded"
    assert ("revoke", "m1", 1_000, 2_000) in shard.traces.shape(superseded)
    assert shard.traces.below(superseded)[-1].attributes["groupd.unfinished"] is True
    shard.traces.stop(shard.now.wall_ms * MS)
    following = shard.traces.roots[-1]
    assert superseded.links == [(following.trace_id, following.span_id)]
    assert following.begin_ns == superseded.end_ns
    assert following.attributes["groupd.epoch"] == 4
    # What m1 is still giving up goes on there.
    revoke = next(one for one in shard.traces.below(following) if one.name == "revoke")
    assert revoke.attributes["groupd.partitions"] == ("foo-1", "foo-3")


def test_members_that_come_before_the_target_belong_to_its_rebalance() -> None:
    traces = Traces()
    for epoch in (2, 3, 4):
        bump = event(EventKind.GROUP_EPOCH_BUMPED, f"m{epoch}", epoch, f"member m{epoch} joined")
        traces.take([bump], epoch * MS)
    traces.take(begun(4, 3)[1:], 9 * MS)
    for member in ("m2", "m3", "m4"):
        traces.take(reached(member, 4, foo=[0]), 10 * MS)
    (root,) = traces.roots
    assert (root.begin_ns, root.end_ns) == (2 * MS, 10 * MS)
    assert (root.attributes["groupd.epoch"], root.attributes["groupd.members"]) == (4, 3)
    assert [note.attributes["groupd.epoch"] for note in root.notes] == [2, 3, 4]
    assert traces.shape(root)[0] == ("target", "", 0, 7)


def test_a_silent_member_keeps_the_rebalance_open_until_it_is_fenced() -> None:
    shard = two_members()
    shard.advance(44_000)
    shard.beat(3, "m2")
    shard.advance(1_000)
    shard.fire()
    root = shard.traces.roots[1]
    assert root.attributes["groupd.outcome"] == "superseded"
    failed = [span for span in shard.traces.below(root) if span.error]
    assert [(span.name, span.attributes["groupd.member.id"]) for span in failed] == [
        ("assign", "m1")
    ]
    assert failed[0].error == "no heartbeat within the session timeout"


def test_the_last_member_leaves_and_nothing_stays_open() -> None:
    shard = TracedShard()
    shard.beat(0)
    shard.beat(-1)
    assert shard.traces.outcomes() == ["completed", "empty"]
    last = shard.traces.roots[-1]
    assert last.attributes["groupd.members"] == 0
    assert [note.name for note in last.notes] == ["member-left", "group-epoch-bumped"]
    assert shard.traces.below(last) == []
    before = len(shard.traces.spans)
    shard.traces.stop(shard.now.wall_ms * MS)
    assert len(shard.traces.spans) == before


def test_a_static_member_that_is_away_is_waited_for() -> None:
    shard = TracedShard()
    shard.beat(0, "m1", instance="i1")
    shard.advance(10_000)
    shard.beat(0, "m2")
    shard.beat(-2, "m1", instance="i1")
    shard.advance(1_000)
    shard.beat(3, "m2")
    assert len(shard.traces.roots) == 1
    shard.beat(0, "m9", instance="i1")
    shard.advance(1_000)
    shard.beat(3, "m2")
    assert shard.traces.outcomes() == ["completed", "completed"]


def test_steady_heartbeats_and_commits_make_nothing() -> None:
    shard = TracedShard()
    shard.beat(0)
    before = list(shard.traces.spans)
    shard.advance(5_000)
    shard.beat(2)
    shard.traces.take([event(EventKind.OFFSETS_COMMITTED, count=1)], 1)
    assert shard.traces.spans == before


def test_a_rebalance_whose_beginning_was_not_seen_is_shown_from_its_target_on() -> None:
    traces = Traces()
    traces.take(begun(7, 1)[1:], 5 * MS)
    traces.take(reached("m1", 7), 8 * MS)
    (root,) = traces.roots
    assert traces.shape(root) == [("target", "", 0, 0), ("assign", "m1", 0, 3)]


def test_a_deleted_group_ends_its_rebalance() -> None:
    traces = Traces()
    traces.take(begun(2, 1), MS)
    traces.take([event(EventKind.GROUP_DELETED)], 2 * MS)
    assert traces.outcomes() == ["deleted"]


def test_a_failing_assignor_stands_in_the_root() -> None:
    traces = Traces()
    traces.take(begun(2, 1)[:1], MS)
    traces.take([event(EventKind.ASSIGNOR_FAILED, "m1", cause="it raised")], 2 * MS)
    traces.stop(3 * MS)
    (root,) = traces.roots
    assert (root.notes[-1].name, root.notes[-1].attributes["groupd.cause"]) == (
        "assignor-failed",
        "it raised",
    )
    (target,) = traces.below(root)
    assert target.attributes == {"groupd.unfinished": True}
    assert traces.outcomes() == ["stopped"]
