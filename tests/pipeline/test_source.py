"""The data source `groupd` over a store: rows, filters, ranges, damage."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, IsNotNull, LessThan, Not

from groupd.pipeline.decode import COLUMNS, EntryRows
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.options import parse_options
from groupd.pipeline.reading import LogRange, SegmentFile, read_partition
from groupd.pipeline.schema import ENTRIES
from groupd.pipeline.source import FilteringReader, GroupdDataSource, GroupdReader
from tests.support.pipeline_logs import AWAY, DAY_MS, LOGS, OTHER, ROWS, fill_store, write_segments
from tests.unit.logtools.harness import (
    HOME,
    TIME_MS,
    G,
    add_row,
    batch,
    change_log,
    commit,
    execute,
    make_store,
    write_segment,
)

NEXT_DAY = datetime.fromtimestamp((TIME_MS + DAY_MS) / 1000, UTC)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("store")
    fill_store(f"sqlite+aiosqlite:///{directory}/groupd.sqlite")
    return directory


def load(spark: SparkSession, **options: object) -> DataFrame:
    spark.dataSource.register(GroupdDataSource)
    return spark.read.format("groupd").options(**{k: str(v) for k, v in options.items()}).load()


def reader(store: Path, **options: object) -> FilteringReader:
    texts = {"store": str(store), **{name: str(value) for name, value in options.items()}}
    return FilteringReader(parse_options(texts), COLUMNS)


def work(source: GroupdReader, **options: object) -> tuple[int, int]:
    """(records decoded, rows given) of all of a reader's tasks, in this process."""
    decoded = given = 0
    for part in source.partitions():
        rows = EntryRows(COLUMNS, source.wanted)
        for found in read_partition(source._options, part, rows, source.wanted):
            given += found.num_rows
        decoded += rows.decoded
    return decoded, given


def test_every_record_is_a_row_of_the_contract(spark: SparkSession, store: Path) -> None:
    frame = load(spark, store=store, rowsPerPartition=5)
    assert frame.schema == ENTRIES
    rows = frame.orderBy("log_partition", "log_offset").collect()
    assert [(row.log_partition, row.log_offset) for row in rows] == sorted(
        (partition, offset)
        for partition, count in ((HOME, 12), (AWAY, 22))
        for offset in range(count)
    )
    assert len(rows) == ROWS
    (last,) = frame.where((F.col("log_partition") == HOME) & (F.col("log_offset") == 10)).collect()
    assert last.offset_commit.offset == 10
    assert last.timestamp.astimezone(UTC) == NEXT_DAY


def test_a_schema_and_an_option_prune_columns(spark: SparkSession, store: Path) -> None:
    spark.dataSource.register(GroupdDataSource)
    narrow = spark.read.format("groupd").schema("log_offset long, `group` string")
    frame = narrow.option("store", str(store)).load()
    assert frame.where("`group` = 'g0'").count() == 11
    assert load(spark, store=store, columns="group, marker").columns == ["group", "marker"]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (f"`group` = '{OTHER}'", 22),
        (f"`group` IN ('{OTHER}', 'nobody')", 22),
        (f"`group` = '{G}' AND record_type = 'offset-commit'", 5),
        ("record_type_id = 2", 1),
        ("record_type = 'marker'", 1),
        (f"log_partition = {AWAY} AND log_offset >= 20", 2),
        (f"log_partition = {AWAY} AND log_offset < 3 AND log_offset <> 1", 2),
        ("timestamp >= '2023-11-15'", 22),
        ("timestamp < '2023-11-15'", 12),
        (f"timestamp = timestamp_millis({TIME_MS})", 12),
        ("`group` IS NULL", 1),
        (f"`group` = '{OTHER}' OR marker = 'commit'", 23),
    ],
)
def test_filters_give_what_spark_would(
    spark: SparkSession, store: Path, condition: str, rows: int
) -> None:
    assert load(spark, store=store).where(condition).count() == rows


def test_filters_reach_the_source(store: Path) -> None:
    """What is not wanted is neither planned nor decoded."""
    assert work(reader(store)) == (ROWS - 1, ROWS)  # a marker needs no decoding

    def pushed(*filters: Any) -> tuple[FilteringReader, list[Any]]:
        source = reader(store)
        return source, list(source.pushFilters(list(filters)))

    source, left = pushed(EqualTo(("group",), OTHER), IsNotNull(("group",)))
    assert left == [IsNotNull(("group",))]
    assert [part.partition for part in source.partitions()] == [AWAY]  # type: ignore[attr-defined]
    assert work(source) == (22, 22)

    source, left = pushed(In(("record_type",), ("group-metadata",)))
    assert (left, work(source)) == ([], (1, 1))

    source, left = pushed(GreaterThanOrEqual(("timestamp",), NEXT_DAY))
    assert [(p.partition, p.from_offset) for p in source.partitions()] == sorted(  # type: ignore[attr-defined]
        [(HOME, 10), (AWAY, 2)]
    )
    assert (left, work(source)) == ([], (22, 22))

    source, left = pushed(EqualTo(("log_partition",), HOME), LessThan(("log_offset",), 3))
    assert (left, work(source)) == ([], (3, 3))

    negated = Not(EqualTo(("group",), G))
    assert pushed(negated)[1] == [negated]


@pytest.mark.parametrize("pushes", [True, False])
def test_spark_pushes_filters_where_the_setting_is_on(
    spark: SparkSession, store: Path, *, pushes: bool
) -> None:
    """Else all is planned, and the rows are the same."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushes).lower())
    try:
        frame = load(spark, store=store).where(f"`group` = '{OTHER}'")
        assert frame.count() == 22
        assert frame.rdd.getNumPartitions() == (1 if pushes else 2)
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


PLAIN = """
import sys
from pyspark.sql import SparkSession
from groupd.pipeline.source import GroupdDataSource

spark = SparkSession.builder.master("local[1]").getOrCreate()
assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
spark.dataSource.register(GroupdDataSource)
log = spark.read.format("groupd").option("store", sys.argv[1]).load()
print(log.count(), log.where(f"`group` = '{sys.argv[2]}'").count())
spark.stop()
"""


def test_a_session_that_is_not_ours_reads_the_log(store: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PLAIN, str(store), OTHER]
    # As where the environment is activated: Spark starts its workers as `python3`.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    unset = ("PYSPARK_PYTHON", "PYTHONPATH", "SPARK_LOCAL_IP")
    env = {name: value for name, value in os.environ.items() if name not in unset} | {"PATH": path}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(ROWS), "22"]


def test_filters_on_options_leave_the_rest_to_spark(store: Path) -> None:
    source = reader(store, group=G)
    filters = [EqualTo(("group",), G), EqualTo(("record_type",), "marker")]
    assert list(source.pushFilters(filters)) == filters[:1]


def test_an_option_keeps_the_markers_of_a_group(spark: SparkSession, store: Path) -> None:
    kinds = [row.record_type for row in load(spark, store=store, group=G).collect()]
    assert len(kinds) == 12
    assert kinds.count("marker") == 1
    until = load(spark, store=store, until="2023-11-15T00:00:00Z")
    assert until.count() == 12
    assert load(spark, store=store, **{"from": NEXT_DAY.isoformat()}).count() == 22


def test_ranges_cover_a_log_once(store: Path) -> None:
    parts = list(reader(store, rowsPerPartition=7).partitions())
    assert all(isinstance(part, LogRange) for part in parts)
    covered = [(p.partition, n) for p in parts for n in range(p.from_offset, p.until_offset)]  # type: ignore[attr-defined]
    assert sorted(covered) == sorted(
        (partition, n) for partition, count in ((HOME, 12), (AWAY, 22)) for n in range(count)
    )
    assert len(parts) == 2 + 4


async def test_a_damaged_row_a_missing_row_and_a_damaged_batch(tmp_path: Path) -> None:
    database = await make_store(tmp_path, {HOME: [batch(n, commit(n)) for n in range(6)]})
    execute(database, "UPDATE log_batch SET max_timestamp_ms = 1 WHERE base_offset = 1")
    execute(database, "DELETE FROM log_batch WHERE base_offset = 3")
    broken = bytearray(batch(6, commit(6)))
    broken[-3] ^= 1
    add_row(database, HOME, bytes(broken))
    change_log(database, HOME, next_offset=9)  # two more are said to be there
    source = reader(tmp_path)
    rows = []
    for part in source.partitions():
        for found in source.read(part):
            rows += found.to_pylist()
    assert [(row["log_offset"], row["error"]) for row in rows] == [
        (0, None),
        (1, "the row at offset 1 has a wrong checksum"),
        (2, None),
        (3, "the batches at offsets 3 to 3 are missing"),
        (4, None),
        (5, None),
        (6, "wrong checksum of the batch at offset 6"),
        (7, "the batches at offsets 7 to 8 are missing"),
    ]


async def test_a_batch_read_notices_that_the_log_was_cleaned_behind_its_snapshot(
    tmp_path: Path,
) -> None:
    database = await make_store(tmp_path, {HOME: [batch(n, commit(n)) for n in range(4)]})
    (part,) = reader(tmp_path).partitions()
    execute(database, "UPDATE log SET clean_offset = 9, next_offset = 9 WHERE next_offset = 4")
    (row_sum,) = (await _row_sum(tmp_path, HOME),)
    execute(database, "UPDATE log SET row_sum = ? WHERE next_offset = 9", row_sum)
    with pytest.raises(PipelineError, match="offsets 0 to 8 have been cleaned before"):
        list(reader(tmp_path).read(part))
    lenient = reader(tmp_path, failOnDataLoss="false")
    assert sum(found.num_rows for found in lenient.read(part)) == 4


async def _row_sum(directory: Path, partition: int) -> int:
    import sqlite3
    from contextlib import closing

    from groupd.storage.checksums import log_sum

    columns = "log_id, name, owner_epoch, start_offset, next_offset, clean_offset"
    with closing(sqlite3.connect(directory / "groupd.sqlite")) as connection:
        query = f"SELECT {columns} FROM log WHERE name = ?"
        row = connection.execute(query, [f"__consumer_offsets-{partition}"]).fetchone()
    return log_sum(*row)


def test_segments_one_task_a_file_and_damage_ends_its_file_only(tmp_path: Path) -> None:
    write_segments(tmp_path)
    source = GroupdReader(parse_options({"segments": str(tmp_path)}), COLUMNS)
    parts = source.partitions()
    assert [type(part) for part in parts] == [SegmentFile] * 4
    assert sum(found.num_rows for part in parts for found in source.read(part)) == ROWS
    # A batch that is cut short is left by a crash at the end of a log, and damage elsewhere.
    first, last = sorted((tmp_path / f"__consumer_offsets-{HOME}").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])
    found = [row for part in parts for some in source.read(part) for row in some.to_pylist()]
    assert len(found) == ROWS - 2
    assert all(row["error"] is None for row in found)
    first.write_bytes(first.read_bytes()[:-3])
    errors = [
        row
        for part in parts
        for some in source.read(part)
        for row in some.to_pylist()
        if row["error"] is not None
    ]
    assert [(row["log_partition"], row["log_offset"]) for row in errors] == [(HOME, 3)]
    assert first.name in errors[0]["error"]


def test_a_file_of_garbage_is_one_row(tmp_path: Path) -> None:
    path = write_segment(tmp_path, 0, *LOGS[HOME][:1])
    path.write_bytes(path.read_bytes() + b"garbage" * 30)
    source = GroupdReader(parse_options({"segments": str(tmp_path)}), COLUMNS)
    (part,) = source.partitions()
    rows = [row for some in source.read(part) for row in some.to_pylist()]
    assert [row["log_offset"] for row in rows] == [0, 1, 2, 3]
    assert "the rest of the file is not read" in rows[3]["error"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs one of the options store and segments"),
        ({"store": "a", "segments": "b"}, "needs one of the options"),
        ({"store": "a", "colums": "x"}, "has no option colums"),
        ({"store": "a", "columns": "x"}, "there is no column x"),
        ({"store": "a", "types": "x"}, "there is no record type x"),
        ({"store": "a", "groups": "x"}, "a list in JSON"),
        ({"store": "a", "rowsPerPartition": "0"}, "a whole number, at least 1"),
        ({"store": "a", "failOnDataLoss": "perhaps"}, "true or false"),
        ({"store": "a", "from": "yesterday"}, "yesterday is not a time"),
        ({"store": "a", "startingOffsets": "soon"}, "earliest, latest or JSON"),
    ],
)
def test_wrong_options_are_told_in_one_line(options: dict[str, str], said: str) -> None:
    with pytest.raises(PipelineError, match=said) as raised:
        parse_options(options)
    assert "\n" not in str(raised.value)


def test_a_store_that_is_not_there_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no such store"):
        load(spark, store=tmp_path / "nowhere").count()
