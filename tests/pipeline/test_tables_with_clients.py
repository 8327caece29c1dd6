"""`commits` and `offsets` of a log that real clients made: against what the clients were answered,
and the same from every form of that log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.history import replay
from groupd.coordinator.history.changes import OffsetChange
from groupd.pipeline.inputs import Origin, read_entries, read_inputs
from groupd.pipeline.job import Job
from groupd.pipeline.jobs import commits, offsets, progress
from groupd.pipeline.run import run_job
from tests.pipeline import real_log
from tests.pipeline.entries import entries_of, inputs_of, rows_of
from tests.pipeline.test_tables_at_random import told
from tests.support.log_command import groupd_log
from tests.support.pipeline_logs import fill_store
from tests.support.postgres import PostgresServer
from tests.unit.history.harness import stream
from tests.unit.logtools.harness import PARTITIONS

pytestmark = pytest.mark.timeout(300)

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
        batches = story.log()[partition_for(group, PARTITIONS)]
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


@pytest.fixture(scope="module")
def store(story: real_log.Story, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The log in an embedded store."""
    url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('store')}/groupd.sqlite"
    fill_store(url, story.log())
    return url


def both(spark: SparkSession, entries: DataFrame) -> tuple[list[Any], list[Any]]:
    inputs = inputs_of(spark, entries)
    return rows_of(commits.JOB, inputs), rows_of(offsets.JOB, inputs)


def test_stores_and_segments_give_the_same_tables(
    spark: SparkSession,
    story: real_log.Story,
    entries: DataFrame,
    store: str,
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    expected = both(spark, entries)
    assert both(spark, read_entries(spark, Origin(store=store))) == expected
    remote = postgres.url(postgres.emptied_database())
    fill_store(remote, story.log())
    assert both(spark, read_entries(spark, Origin(store=remote))) == expected
    directory = str(tmp_path / "segments")
    groupd_log("export", "--store", store, "--to", directory, "--topic-ids", "keep")
    assert both(spark, read_entries(spark, Origin(segments=str(directory)))) == expected


def test_kafkas_own_source_gives_what_it_can(
    spark: SparkSession, story: real_log.Story, entries: DataFrame
) -> None:
    """Spark's Kafka source knows no markers: what it gives has been committed and counts from its
    record on, aborted and open transactions do not come. The latest state is the same."""
    history, latest = both(spark, entries)
    inputs = read_inputs(spark, Origin(kafka=story.bootstrap))
    assert [{**row, "pending": None} for row in latest] == [
        {**row, "pending": None, "topic_is_current": None} for row in rows_of(offsets.JOB, inputs)
    ]
    found = rows_of(commits.JOB, inputs)
    assert {row["outcome"] for row in found} == {"committed"}
    assert {row["log_offset"] for row in found if row["group"] == "pipeline"} == {
        row["log_offset"]
        for row in history
        if row["group"] == "pipeline" and row["outcome"] == "committed"
    }
    plain = [row for row in history if row["group"] not in ("pipeline", "hanging")]
    assert [row for row in found if row["group"] not in ("pipeline", "hanging")] == plain


@pytest.mark.parametrize("job", [commits.JOB, offsets.JOB, progress.JOB], ids=lambda job: job.name)
def test_a_run_over_few_columns_gives_the_same_and_so_does_the_next(
    spark: SparkSession, store: str, tmp_path: Path, job: Job
) -> None:
    options = {**job.options, **({"window": "6h"} if job is progress.JOB else {})}

    def written() -> dict[str, list[Any]]:
        origin = Origin(store=store)
        done = run_job(spark, job, origin, str(tmp_path), options, with_quarantine=False)
        tables = {}
        for name, count in done.rows.items():
            rows = spark.read.parquet(f"{tmp_path}/{name}").drop("day").toArrow().to_pylist()
            assert len(rows) == count
            tables[name] = sorted(rows, key=str)
        return tables

    inputs = read_inputs(spark, Origin(store=store), step=job.ends_step(options))
    expected = {
        name: sorted(table.frame.toArrow().to_pylist(), key=str)
        for name, table in job.build(inputs, options).items()
    }
    assert written() == expected
    assert written() == expected
    assert all(expected.values())
