"""`commits` and `offsets` of a log that real clients made, against what they were answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from coordinator.core.partitioning import partition_for
from coordinator.history import replay
from coordinator.history.changes import OffsetChange
from pipeline.jobs import commits, offsets
from tests.pipeline import real_log
from tests.pipeline.entries import entries_of, inputs_of, rows_of
from tests.pipeline.test_tables_at_random import told
from tests.unit.history.harness import stream

RETENTION_MINUTES = 3 * real_log.DAY_MS // 60_000


@pytest.fixture(scope="module")
def story() -> Iterator[real_log.Story]:
    with real_log.told() as made:
        yield made


@pytest.fixture(scope="module")
def entries(spark: SparkSession, story: real_log.Story) -> DataFrame:
    return entries_of(spark, story.log())


def test_offsets_are_what_clients_were_answered_at_three_instants(
    spark: SparkSession, story: real_log.Story, entries: DataFrame
) -> None:
    inputs = inputs_of(spark, entries)
    for instant in story.instants:
        rows = rows_of(offsets.JOB, inputs, at=str(instant.time_ms))
        found = {
            (row["group"], row["topic"], row["partition"]): (
                row["offset"],
                row["leader_epoch"],
                row["metadata"],
            )
            for row in rows
        }
        assert found == instant.answer
        assert {
            (row["group"], row["topic"], row["partition"]) for row in rows if row["pending"]
        } == instant.pending
    first, second, third = (instant.answer for instant in story.instants)
    assert {group for group, _, _ in first} == {"workers", "modern", "tool", "gone", "pipeline"}
    assert {group for group, _, _ in second} == {"workers", "modern", "tool", "short", "pipeline"}
    # What expired is gone, and what was in a topic that was deleted.
    assert {group for group, _, _ in third} == {"workers", "modern", "pipeline", "hanging"}
    assert {topic for _, topic, _ in third} == {"orders"}
    assert [len(instant.pending) for instant in story.instants] == [0, 1, 1]
    assert second["pipeline", "orders", 0][0] == third["pipeline", "orders", 0][0] == 55
    assert third["pipeline", "orders", 2][0] == 72


async def test_commits_are_the_history_that_groupd_tells(
    spark: SparkSession, story: real_log.Story, entries: DataFrame
) -> None:
    expected = []
    for group in real_log.GROUPS:
        batches = story.log()[partition_for(group, 50)]
        extent = await replay.survey(lambda batches=batches: stream(batches), 0, group)
        found = replay.changes(
            stream(batches), group, extent, retention_ms=RETENTION_MINUTES * 60_000
        )
        expected += [
            {"group": group, **told(change)}
            async for change in found
            if isinstance(change, OffsetChange)
        ]
    rows = rows_of(commits.JOB, inputs_of(spark, entries), retention_minutes=RETENTION_MINUTES)
    effective = [{name: row[name] for name in expected[0]} for row in rows if row["effective"]]
    assert sorted(effective, key=str) == sorted(expected, key=str)

    by_kind = {row["kind"] for row in rows}
    kinds = {"first", "forward", "back", "same", "reset", "deleted", "expired", None}
    assert by_kind == kinds
    assert {row["outcome"] for row in rows} == {"committed", "aborted", "open"}
    static = [row for row in rows if row["instance"] == "machine-1"]
    assert [(row["partition"], row["kind"], row["jump"]) for row in static] == [
        (0, "first", None),
        (2, "first", None),
        (0, "back", -1),
    ]
    assert {(row["actor"], row["client_id"]) for row in static} == {("owner", "client-modern")}
    assert all(row["member"] and row["epoch"] for row in static)
    (overtaken,) = [row for row in rows if row["outcome"] == "committed" and not row["effective"]]
    assert (overtaken["group"], overtaken["partition"], overtaken["offset"]) == ("pipeline", 0, 70)
