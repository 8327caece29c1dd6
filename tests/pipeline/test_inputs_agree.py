"""The same rows from every form of a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from groupd.pipeline.inputs import (
    Origin,
    lake_entries,
    read_end_offsets,
    read_entries,
    read_inputs,
    read_quarantine,
    read_topics,
)
from groupd.pipeline.job import Table
from groupd.pipeline.row_filter import RowFilter
from groupd.pipeline.schema import ENTRIES
from groupd.pipeline.sink import write_table
from groupd.pipeline.values import topic_id_text
from tests.support.pipeline_logs import LOGS, OTHER, ROWS, fill_store, write_segments
from tests.support.postgres import PostgresServer
from tests.unit.logtools.harness import HOME, ORDERS_ID, TIME_MS, batch, commit


def content(frame: DataFrame) -> list[dict[str, object]]:
    rows = frame.orderBy("log_partition", "log_offset").collect()
    return [row.asDict(recursive=True) for row in rows]


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite+aiosqlite:///{tmp_path}/groupd.sqlite"
    fill_store(url)
    return url


def test_stores_segments_and_lake(
    spark: SparkSession, store: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    expected = content(read_entries(spark, Origin(store=store)))
    assert len(expected) == ROWS
    remote = postgres.url(postgres.emptied_database())
    fill_store(remote)
    assert content(read_entries(spark, Origin(store=remote))) == expected
    assert (
        content(read_entries(spark, Origin(segments=str(write_segments(tmp_path / "logs")))))
        == expected
    )
    table = Table(
        read_entries(spark, Origin(store=store)), "timestamp", ("log_partition", "log_offset")
    )
    assert write_table(spark, table, f"{tmp_path}/lake/entries")() == ROWS
    assert [path.name for path in sorted((tmp_path / "lake" / "entries").glob("day=*"))] == [
        "day=2023-11-14",
        "day=2023-11-15",
    ]
    copied = lake_entries(spark, tmp_path / "lake")
    assert copied.schema == ENTRIES
    assert content(copied) == expected
    wanted = RowFilter(groups=frozenset({OTHER}), until_us=(TIME_MS + 1) * 1000, rest=True)
    for origin in (
        Origin(store=store, wanted=wanted),
        Origin(lake=f"{tmp_path}/lake", wanted=wanted),
        Origin(segments=f"{tmp_path}/logs", wanted=wanted),
    ):
        kinds = [row["record_type"] for row in content(read_entries(spark, origin))]
        assert kinds.count("offset-commit") == 2
        assert set(kinds) <= {"offset-commit", "marker"}


def test_topics_and_ends_of_a_store(spark: SparkSession, store: str) -> None:
    origin = Origin(store=store)
    assert [tuple(row) for row in read_topics(spark, origin).collect()] == [
        (topic_id_text(ORDERS_ID), "orders", 6)
    ]
    assert [tuple(row) for row in read_end_offsets(spark, origin).collect()] == [
        ("orders", 1, 42, None)
    ]


def test_topics_of_commits_where_nothing_else_knows(spark: SparkSession, tmp_path: Path) -> None:
    origin = Origin(segments=str(write_segments(tmp_path)))
    assert [tuple(row) for row in read_topics(spark, origin).collect()] == [
        (topic_id_text(ORDERS_ID), "orders", None)
    ]
    assert read_end_offsets(spark, origin).count() == 0


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_tables_that_a_person_brings(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    topics, ends = tmp_path / f"topics.{kind}", tmp_path / f"ends.{kind}"
    if kind == "csv":
        topics.write_text("topic,topic_id\npayments,id-1\n")
        ends.write_text("topic,partition,end_offset,time\npayments,0,77,2026-01-01T00:00:00Z\n")
    else:
        topics.write_text('{"topic": "payments", "topic_id": "id-1"}\n')
        ends.write_text(
            '{"topic": "payments", "partition": 0, "end_offset": 77, '
            '"time": "2026-01-01T00:00:00Z"}\n'
        )
    origin = Origin(
        segments=str(write_segments(tmp_path / "logs")),
        topics_file=str(topics),
        end_offsets_file=str(ends),
    )
    assert ("id-1", "payments", None) in [tuple(r) for r in read_topics(spark, origin).collect()]
    (end,) = read_end_offsets(spark, origin).collect()
    assert (end.topic, end.partition, end.end_offset) == ("payments", 0, 77)
    assert end.time.timestamp() == 1767225600


def test_quarantine_has_the_place_and_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    broken = bytearray(batch(12, commit(3)))
    broken[-3] ^= 1
    logs = {**LOGS, HOME: [*LOGS[HOME], bytes(broken)]}
    origin = Origin(segments=str(write_segments(tmp_path, logs)))
    inputs = read_inputs(spark, origin)
    assert inputs.entries.count() == ROWS
    (row,) = read_quarantine(spark, origin).collect()
    assert (row.log_partition, row.log_offset, row.record_type) == (HOME, 12, "corrupt-batch")
    assert row.error == "wrong checksum of the batch at offset 12"
