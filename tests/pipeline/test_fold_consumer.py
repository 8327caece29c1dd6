"""The fold over consumer groups, on records that the core itself has written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.pipeline import group_tables
from groupd.pipeline.fold.state import Settings
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from tests.pipeline.group_logs import TimedShard, entry_of, facts_of
from tests.unit.consumer_group.harness import BAR, FOO, topic

SECOND, SESSION_MS = 1000, 45_000


def shard(**settings: Any) -> TimedShard:
    return TimedShard(topic("foo", FOO, 6), topic("bar", BAR, 2), **settings)


def rebalances(world: TimedShard) -> list[dict[str, Any]]:
    return facts_of(world.entries(), world.names())["rebalances"]


def brief(rows: list[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def two_members(world: TimedShard) -> None:
    world.join("a")
    world.settle_all(SECOND)
    world.join("b")
    world.settle_all(SECOND)


def test_rows_have_exactly_the_columns_of_the_tables() -> None:
    world = shard()
    two_members(world)
    world.leave("a")
    world.settle_all()
    found = facts_of(world.entries(), world.names())
    for table, rows in found.items():
        columns = getattr(group_tables, table.upper()).fieldNames()
        assert rows, table
        for row in rows:
            assert list(row) == columns


def test_joins_and_a_leave() -> None:
    world = shard()
    two_members(world)
    world.advance(SECOND)
    world.leave("a")
    world.settle_all(SECOND)
    rows = rebalances(world)
    columns = ("epoch", "trigger", "joined", "left", "members_before", "members_after", "status")
    assert brief(rows, *columns) == [
        (2, "join", ["a"], [], 0, 1, "completed"),
        (3, "join", ["b"], [], 1, 2, "completed"),
        (4, "leave", [], ["a"], 2, 1, "completed"),
    ]
    columns = ("moved", "gained", "lost", "partitions", "minimal", "needless", "needless_share")
    assert brief(rows, *columns) == [
        (0, 6, 0, 6, 0, 0, None),
        (3, 0, 0, 6, 3, 0, 0.0),
        (3, 0, 0, 6, 3, 0, 0.0),
    ]


def test_duration_and_unowned_time_are_measured_from_the_records() -> None:
    world = shard()
    world.join("a")
    world.settle_all()
    world.advance(SECOND)
    world.join("b")  # a hears of it in 2 s, confirms 3 s later, b takes it 4 s later
    for member, after_s in (("a", 2), ("a", 3), ("b", 4)):
        world.advance(after_s * SECOND)
        world.say(member)
    row = rebalances(world)[1]
    assert (row["duration_ms"], row["unowned_sum_ms"], row["unowned_max_ms"]) == (
        9 * SECOND,
        3 * 4 * SECOND,
        4 * SECOND,
    )
    moves = facts_of(world.entries(), world.names())["rebalance_moves"]
    moved = [one for one in moves if one["kind"] == "moved"]
    assert {(one["from_member"], one["to_member"], one["forced"]) for one in moved} == {
        ("a", "b", False)
    }
    held = facts_of(world.entries(), world.names())["ownership"]
    lost = [one for one in held if one["member_id"] == "a" and one["until"] is not None]
    assert {one["until"] - one["revoking_since"] for one in lost} == {3 * SECOND}


def test_a_storm_supersedes_and_every_wait_counts_once() -> None:
    world = shard()
    world.join("a")
    world.settle_all()
    for number in range(3):
        world.advance(SECOND)
        world.join(f"b{number}")
    world.settle_all(SECOND)
    rows = rebalances(world)
    assert sorted(brief(rows, "epoch", "status")) == [
        (2, "completed"),
        (3, "superseded"),
        (4, "superseded"),
        (5, "completed"),
    ]
    found = facts_of(world.entries(), world.names())
    waited = sum(one["unowned_ms"] or 0 for one in found["rebalance_moves"])
    gaps = 0
    for partition in range(6):
        held = sorted(
            (one["since"], one["until"] or 0)
            for one in found["ownership"]
            if one["partition"] == partition
        )
        gaps += sum(later[0] - sooner[1] for sooner, later in pairwise(held))
    assert waited == gaps > 0
    assert all(row["waiting_for"] == ["a"] for row in rows if row["epoch"] == 3)


@pytest.mark.parametrize(
    ("commits", "ended_by", "certainty", "trigger"),
    [
        ((), "removed", None, "removal"),
        ((1, 2, 3, 4), "expired", "likely", "expiry"),
    ],
)
def test_a_session_that_expires_is_told_from_a_leave_if_the_commits_tell(
    commits: tuple[int, ...], ended_by: str, certainty: str | None, trigger: str
) -> None:
    world = shard()
    two_members(world)
    entries = world.entries()
    began = world.now.wall_ms
    held = world.member("b").assigned[FOO]
    partition = min(held)
    written = len(entries)
    for number in commits:
        record = Record(
            OffsetCommitKey("g", "foo", partition), OffsetCommitValue(number, topic_id=FOO)
        )
        entries.append(entry_of(written + number, began + number * SECOND, record))
    world.advance(SESSION_MS - SECOND)
    world.say("a")
    world.advance(2 * SECOND)
    assert world.fire()
    del world.told["b"]
    world.say("a")
    entries += [
        entry._replace(log_offset=entry.log_offset + 100) for entry in world.entries()[written:]
    ]
    found = facts_of(entries, world.names())
    (gone,) = [row for row in found["members"] if row["ended"] is not None]
    assert (gone["member_id"], gone["ended_by"], gone["ended_certainty"]) == (
        "b",
        ended_by,
        certainty,
    )
    assert found["rebalances"][-1]["trigger"] == trigger


def test_a_missed_rebalance_timeout() -> None:
    world = shard()
    world.join("a", timeout=10_000)
    world.settle_all()
    world.join("b")
    world.advance(SECOND)
    world.say("a")
    assert world.member("a").state is MemberState.UNREVOKED_PARTITIONS
    world.advance(10_000)
    assert world.fire()
    del world.told["a"]
    world.say("b")
    found = facts_of(world.entries(), world.names())
    (gone,) = [row for row in found["members"] if row["ended"] is not None]
    assert (gone["member_id"], gone["ended_by"]) == ("a", "rebalance-timeout")
    assert found["rebalances"][-1]["trigger"] == "rebalance-timeout"


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    world = shard()
    world.join("a")
    world.join("s1", instance="static")
    world.settle_all()
    world.advance(SECOND)
    world.leave("s1", -2, instance="static")
    world.advance(5 * SECOND)
    world.join("s2", instance="static")
    world.settle_all()
    found = facts_of(world.entries(), world.names())
    assert len(found["rebalances"]) == world.group.group_epoch - 1 == 2
    lives = {row["member_id"]: row for row in found["members"]}
    assert (lives["s1"]["ended_by"], lives["s1"]["replaced_by"]) == ("replaced", "s2")
    assert (lives["s2"]["began_by"], lives["s2"]["replaces"]) == ("replaced", "s1")
    assert lives["s1"]["away_ms"] == 5 * SECOND
    assert lives["s2"]["partitions"] == 3


def test_triggers_from_outside_and_from_members() -> None:
    world = shard()
    two_members(world)
    world.advance(60 * SECOND)
    world.topics(topic("foo", FOO, 8), topic("bar", BAR, 2))
    world.settle_all(SECOND)
    world.say("a", names=["foo", "bar"])
    world.settle_all(SECOND)
    world.say("a", assignor="range")
    world.settle_all(SECOND)
    world.say("b", names=["foo", "bar"])
    world.settle_all(SECOND)
    rows = rebalances(world)
    assert brief(rows[2:], "trigger", "trigger_members", "why") == [
        ("metadata-change", [], "topics changed"),
        ("subscription-change", ["a"], "a changed its subscription"),
        ("assignor-change", ["a"], "a asked for another assignor"),
        ("subscription-change", ["b"], "b changed its subscription"),
    ]
    assert (rows[2]["gained"], rows[2]["partitions"]) == (2, 8)
    assert rows[3]["minimal_method"] == "uniform"
    assert rows[5]["minimal_method"] == "exact"


def test_a_regular_expression() -> None:
    world = shard()
    world.join("a", regex="fo.*")
    world.finish_task()
    world.settle_all()
    rows = rebalances(world)
    assert brief(rows, "trigger", "joined") == [("regex", ["a"])]
    assert rows[0]["gained"] == 6


def test_the_last_one_leaves_and_the_next_one_comes() -> None:
    world = shard()
    world.join("a")
    world.settle_all()
    world.advance(SECOND)
    world.leave("a")
    world.advance(SECOND)
    world.join("b")
    world.settle_all()
    rows = rebalances(world)
    assert brief(rows, "trigger", "status", "gained", "moved", "lost") == [
        ("join", "completed", 6, 0, 0),
        ("leave", "emptied", 0, 0, 6),
        ("join", "completed", 6, 0, 0),
    ]


def test_what_is_going_on_at_the_end_has_an_open_end() -> None:
    world = shard()
    world.join("a")
    world.settle_all()
    world.join("b")
    world.say("a")
    found = facts_of(world.entries(), world.names())
    assert brief(found["rebalances"], "status", "stable_at", "waiting_for")[1] == (
        "unfinished",
        None,
        ["a"],
    )
    assert {row["ended"] for row in found["members"]} == {None}
    assert len([row for row in found["ownership"] if row["until"] is None]) == 6


def test_a_history_that_begins_in_the_middle() -> None:
    world = shard()
    two_members(world)
    cut = len(world.log)
    world.advance(SECOND)
    world.join("c")
    world.settle_all(SECOND)
    newest: dict[Any, int] = {record.key: n for n, record in enumerate(world.log[:cut])}
    kept = sorted(newest.values())
    entries = world.entries()
    found = facts_of([*(entries[n] for n in kept), *entries[cut:]], world.names())
    whole = facts_of(entries, world.names())
    last, true = found["rebalances"][-1], whole["rebalances"][-1]
    same = ("epoch", "trigger", "joined", "moved", "members_after", "duration_ms", "minimal")
    assert [last[column] for column in same] == [true[column] for column in same]
    assert (last["complete_history"], true["complete_history"]) == (False, True)
    assert {row["member_id"]: row["began_by"] for row in found["members"]}["a"] == "seen"
    now = {(row["partition"], row["member_id"]) for row in found["ownership"] if not row["until"]}
    assert now == {
        (row["partition"], row["member_id"]) for row in whole["ownership"] if not row["until"]
    }


def test_a_client_that_comes_and_goes_flaps() -> None:
    world = shard()
    world.join("a")
    world.settle_all()
    for number in range(3):
        world.join(f"b{number}", client_id="restless")
        world.advance(SECOND)
        world.leave(f"b{number}")
        world.settle_all(SECOND)
    rows = rebalances(world)
    assert rows[-1]["flapping"] == ["restless/127.0.0.1"]
    assert [row["flapping"] for row in rows[:-1]] == [[]] * (len(rows) - 1)
    settled = facts_of(world.entries(), world.names(), Settings(flap_count=4))["rebalances"]
    assert settled[-1]["flapping"] == []
