"""The jobs about groups in Spark give what the folds give without it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from groupd.pipeline import group_tables
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.group_pass import COLUMNS
from groupd.pipeline.inputs import Origin
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs import health, members, rebalances, what_if
from groupd.pipeline.run import run_job
from groupd.pipeline.schema import ENTRIES
from tests.pipeline.entries import entries_of, inputs_of
from tests.pipeline.group_logs import TimedShard, facts_of
from tests.support.pipeline_logs import fill_store
from tests.unit.consumer_group.harness import BAR, FOO, topic

pytestmark = pytest.mark.timeout(300)  # starting Spark on a busy machine takes its time

JOBS = (members.JOB, rebalances.JOB, health.JOB, what_if.JOB)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def world() -> TimedShard:
    """A shard with joins, a static restart, an expiry, more partitions, and an end in the
    middle."""
    log = TimedShard(topic("foo", FOO, 6), topic("bar", BAR, 2))
    log.join("a")
    log.join("s1", instance="static", client_id="static-client")
    log.settle_all(1000)
    log.leave("s1", -2, instance="static")
    log.advance(2000)
    log.join("s2", instance="static", client_id="static-client")
    log.settle_all(1000)
    log.advance(60_000)
    log.topics(topic("foo", FOO, 9), topic("bar", BAR, 2))
    log.settle_all(1000)
    log.join("b", names=["foo", "bar"])
    log.say("a")
    return log


def inputs(spark: SparkSession, log: TimedShard) -> Inputs:
    """Two partitions of the log with the same groups: they must not meet."""
    entries = entries_of(spark, {3: log.payloads(), 7: log.payloads()})
    names = [(topic_id, name, None) for topic_id, name in log.names().items()]
    return inputs_of(spark, entries, names)


def same_columns(table: Table, columns: StructType) -> bool:
    """Whether the columns are the same; which of them may be null does not count."""
    return table.frame.schema.simpleString() == columns.simpleString()


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row that can be compared: times in milliseconds, without the log partition."""
    return tuple(
        (name, (value - EPOCH) // timedelta(milliseconds=1))
        if isinstance(value, datetime)
        else (name, value)
        for name, value in sorted(row.items())
        if name != "log_partition"
    )


@pytest.mark.parametrize("job", [members.JOB, rebalances.JOB], ids=lambda job: job.name)
def test_spark_gives_the_rows_of_the_fold(spark: SparkSession, job: Job) -> None:
    log = world()
    result = job.build(inputs(spark, log), job.options)
    assert next(iter(result)) == job.name
    found = facts_of(log.entries(), log.names())
    for name, table in result.items():
        assert same_columns(table, getattr(group_tables, name.upper()))
        rows = [row.asDict(recursive=True) for row in table.frame.collect()]
        expected = sorted((plain(row) for row in found[name]), key=str)
        assert len(expected) > 1
        for partition in {3, 7}:
            mine = [
                {
                    key: value.astimezone(UTC) if isinstance(value, datetime) else value
                    for key, value in row.items()
                }
                for row in rows
            ]
            if "log_partition" in table.frame.columns:
                mine = [row for row in mine if row["log_partition"] == partition]
                assert sorted((plain(row) for row in mine), key=str) == expected
            else:
                doubled = sorted(expected * 2, key=str)
                assert sorted((plain(row) for row in mine), key=str) == doubled
        keys = [tuple(str(row[key]) for key in table.keys) for row in rows]
        if "log_partition" in table.keys:
            assert len(set(keys)) == len(keys)
        else:
            assert len(set(keys)) * 2 == len(keys)
        if table.time_column is not None:
            assert all(row[table.time_column] is not None for row in rows)


def test_health_ranks_the_groups(spark: SparkSession, tmp_path: Path) -> None:
    log = world()
    log.advance(10 * 60_000)
    log.say("s2", instance="static")
    config = tmp_path / "health.toml"
    config.write_text('[unfinished]\nafter = "2m"\n')
    given = inputs(spark, log)
    result = health.JOB.build(given, {**health.JOB.options, "config": str(config)})
    assert list(result) == ["health", "findings"]
    for name, table in result.items():
        assert same_columns(table, getattr(group_tables, name.upper()))
    (row,) = result["health"].frame.collect()
    assert (row.group, row.rank, row.severity, row.state) == ("g", 1, "critical", "Rebalancing")
    assert row.kinds == ["unfinished-rebalance"]
    found = result["findings"].frame.collect()
    assert sum(one.score for one in found) == row.score
    assert row.summary == found[0].summary
    before = datetime.fromtimestamp(log.times[0] / 1000, UTC) + timedelta(seconds=30)
    result = health.JOB.build(given, {**health.JOB.options, "at": before.isoformat()})
    (row,) = result["health"].frame.collect()
    assert (row.severity, row.findings, row.state, row.members) == ("ok", 0, "Stable", 2)


def test_health_uses_the_last_end_offset_known(spark: SparkSession) -> None:
    log = world()
    at = datetime.fromtimestamp(log.now.wall_ms / 1000, UTC)
    ends = [
        ("foo", 0, 5, at - timedelta(hours=1)),
        ("foo", 0, 7, at),
        ("foo", 0, 9, at + timedelta(hours=1)),
        ("bar", 1, 3, None),
    ]
    table = inputs_of(spark, spark.createDataFrame([], ENTRIES), (), ends).end_offsets
    assert health._end_offsets(table, log.now.wall_ms) == {("foo", 0): 7, ("bar", 1): 3}


def test_what_if_and_its_totals(spark: SparkSession) -> None:
    log = world()
    options = what_if.JOB.options
    with pytest.raises(PipelineError, match=r"^assignor: "):
        what_if.JOB.build(inputs(spark, log), {**options, "assignor": "nonsense"})
    result = what_if.JOB.build(inputs(spark, log), what_if.JOB.options)
    assert list(result) == ["what-if", "what_if_totals"]
    rows, totals = (table.frame.collect() for table in result.values())
    assert same_columns(result["what-if"], group_tables.WHAT_IF)
    assert same_columns(result["what_if_totals"], group_tables.WHAT_IF_TOTALS)
    assert {row.same_assignment for row in rows} == {True}
    assert len(rows) == 2 * (log.group.group_epoch - 1)
    (total,) = totals
    assert (total.rebalances, total.failed, total.same) == (len(rows), 0, len(rows))
    assert total.simulated_moved == total.recorded_moved == sum(one.recorded_moved for one in rows)


def test_without_entries_there_are_no_rows(spark: SparkSession) -> None:
    empty = inputs_of(spark, spark.createDataFrame([], ENTRIES))
    for job in JOBS:
        for table in job.build(empty, job.options).values():
            assert table.frame.count() == 0


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_from_a_store_to_parquet(spark: SparkSession, tmp_path: Path, job: Job) -> None:
    log, url, out = world(), f"sqlite+aiosqlite:///{tmp_path}/groupd.sqlite", tmp_path / "out"
    fill_store(url, {3: log.payloads()})
    first = run_job(spark, job, Origin(store=url), str(out))
    if job is rebalances.JOB:
        assert run_job(spark, job, Origin(store=url), str(out)).rows == first.rows
    assert first.quarantined == 0
    found = facts_of(log.entries(), log.names())
    for name, count in first.rows.items():
        assert count == len(found.get(name, [])) or name not in found
        assert spark.read.parquet(str(out / name)).count() == count
        assert count > 0 or name == "findings"
    assert set(COLUMNS) <= set(ENTRIES.fieldNames())
