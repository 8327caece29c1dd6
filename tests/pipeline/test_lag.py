"""Lag in records and in seconds: number by number, then over a store whose topics tell the time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupd.pipeline import inputs as pipeline_inputs
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.generator.command import UNTIL_MS, generate
from groupd.pipeline.generator.profiles import HOUR_MS
from groupd.pipeline.generator.script import (
    Act,
    GeneratedPartition,
    GeneratedTopic,
    GeneratedWorld,
    GroupPlan,
    Kind,
    Op,
)
from groupd.pipeline.generator.sinks import StoreSink
from groupd.pipeline.inputs import Origin, read_end_offsets
from groupd.pipeline.jobs import lag
from groupd.pipeline.run import run_job
from groupd.storage.open import create_store
from tests.pipeline.entries import entries_of, inputs_of, rows_of
from tests.pipeline.test_progress import MINUTE, START, minute
from tests.unit.history.harness import START_MS, LoggedShard

pytestmark = pytest.mark.timeout(300)


def log() -> LoggedShard:
    """Commits of one group: partition 0 moves in minutes 0 and 3, the others once."""
    shard = LoggedShard()
    for at, partition, offset in ((0, 0, 100), (0, 1, 10), (0, 2, 10), (0, 3, 10), (3.5, 0, 205)):
        shard.now_ms = max(shard.now_ms, START_MS + int(at * 60_000))
        shard.commit("g", partition, offset)
    return shard


ENDS = [
    ("t", 0, 100, START),
    ("t", 0, 160, START + 1 * MINUTE),
    ("t", 0, 220, START + 2 * MINUTE),
    ("t", 0, 220, START + 4 * MINUTE),
    ("t", 1, 10, START),
    ("t", 1, 10, START + 2.5 * MINUTE),
    ("t", 1, 11, START + 3 * MINUTE),  # one record, written then at the latest
    ("t", 2, 30, None),
    ("t", 3, 5, START + 4 * MINUTE),  # older than the commit
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    inputs = inputs_of(spark, entries_of(spark, {0: log().batches}), (), ENDS)
    return {
        table: rows_of(lag.JOB, inputs, table, window="1m", until=str(START_MS + 270_000))
        for table in ("lag", "lag_now")
    }


def of(rows: list[dict[str, Any]], partition: int) -> list[tuple[Any, ...]]:
    return [
        (minute(row, "at"), row["offset"], row["end_offset"], row["lag"], row["lag_seconds"])
        for row in rows
        if row["partition"] == partition
    ]


def test_lag_over_time_in_records_and_seconds(rows: dict[str, list[dict[str, Any]]]) -> None:
    """A record a second in the first two minutes, then none: record 100 is written one second
    after the start, record 205 after 106 seconds."""
    assert of(rows["lag"], 0) == [
        (1, 100, 160, 60, 59.0),
        (2, 100, 220, 120, 119.0),
        (3, 100, 220, 120, 179.0),
        (4, 205, 220, 15, 134.0),
        (4.5, 205, 220, 15, 164.0),
    ]
    assert of(rows["lag"], 1)[2:] == [
        (3, 10, 11, 1, 0.0),
        (4, 10, 11, 1, 60.0),
        (4.5, 10, 11, 1, 90.0),
    ]
    assert of(rows["lag"], 1)[:2] == [(1, 10, 10, 0, 0.0), (2, 10, 10, 0, 0.0)]


def test_what_is_not_known_is_null_and_not_zero(rows: dict[str, list[dict[str, Any]]]) -> None:
    assert of(rows["lag"], 2) == [(at, 10, None, None, None) for at in (1, 2, 3, 4)] + [
        (4.5, 10, 30, 20, None)
    ]
    assert of(rows["lag"], 3)[-1] == (4.5, 10, 5, 0, 0.0)


def test_now_is_the_last_instant_of_every_partition(rows: dict[str, list[dict[str, Any]]]) -> None:
    assert rows["lag_now"] == [row for row in rows["lag"] if minute(row, "at") == 4.5]
    assert len(rows["lag_now"]) == 4
    assert [int(2 * minute(row, "committed_at")) for row in rows["lag_now"]] == [7, 0, 0, 0]


def test_an_empty_log_has_no_lag(spark: SparkSession) -> None:
    assert rows_of(lag.JOB, inputs_of(spark, entries_of(spark, {0: []}))) == []


# Over a store ----------------------------------------------------------------------------------

RATE = 10.0
TOPIC = GeneratedTopic("orders", bytes(range(16)), (RATE,) * 2, (1000,) * 2, 0.0, 0.0)
FROM_MS = UNTIL_MS - 2 * HOUR_MS
WORLD = GeneratedWorld([TOPIC], FROM_MS, UNTIL_MS, 4, 7, 121)
STUCK = (
    Op(FROM_MS + 1000, Act.JOIN, 0),
    Op(FROM_MS + HOUR_MS, Act.STICK, places=(1,)),
)
PLAN = GroupPlan(
    "billing", Kind.CONSUMER, (GeneratedPartition(0, 0), GeneratedPartition(0, 1)), STUCK, 900
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("lag")

    async def fill() -> None:
        store = create_store(None, at)
        await store.start()
        await generate(WORLD, [PLAN], StoreSink(store))
        await store.close()

    asyncio.run(fill())
    return at


def test_a_store_tells_lag_over_time(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    """Ten records a second: the group is a tenth of its lag in seconds behind."""
    done = run_job(spark, lag.JOB, Origin(store=str(store)), str(tmp_path))
    assert done.rows["lag_now"] == 2
    found = spark.read.parquet(str(tmp_path / "lag")).orderBy("at").collect()
    assert done.rows["lag"] == len(found) == 2 * 24
    behind = [row for row in found if row.partition == 1 and row.lag > 3000]
    assert len(behind) > 8
    for row in behind:
        assert row.lag_seconds == pytest.approx(row.lag / RATE, rel=0.02)
    assert [row.lag for row in behind] == sorted(row.lag for row in behind)
    assert max(row.lag_seconds for row in found if row.partition == 0) < 120


def test_too_many_ends_are_refused_in_one_line(
    spark: SparkSession, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_inputs, "_ENDS_MAX", 10)
    with pytest.raises(PipelineError, match="choose a longer window"):
        read_end_offsets(spark, Origin(store=str(store)), timedelta(minutes=1))
