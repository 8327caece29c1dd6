"""Results on disk: by day, and the same however often a run is repeated."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.job import Table
from groupd.pipeline.sink import DaySpan, check_format, span_of, write_table

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def table(spark: SparkSession, *rows: tuple[str, int]) -> Table:
    schema = "time timestamp, number int"
    values = ", ".join(f"(timestamp'{day} 10:00:00', {number})" for day, number in rows)
    if rows:
        frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(time, number)")
    else:
        frame = spark.createDataFrame([], schema)
    return Table(frame, "time", ("number",))


def content(spark: SparkSession, path: Path) -> list[tuple[str, int]]:
    frame: DataFrame = spark.read.parquet(str(path))
    return sorted((str(row.day), row.number) for row in frame.collect())


def test_a_run_that_is_repeated_leaves_the_same(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "t"
    first = table(spark, (DAYS[0], 1), (DAYS[0], 2), (DAYS[1], 3))
    for _ in range(2):
        assert write_table(spark, first, str(out))() == 3
        assert content(spark, out) == [(DAYS[0], 1), (DAYS[0], 2), (DAYS[1], 3)]
    # A day has fewer rows, one has none any more, one is new.
    second = table(spark, (DAYS[0], 2), (DAYS[2], 4))
    assert write_table(spark, second, str(out))() == 2
    assert content(spark, out) == [(DAYS[0], 2), (DAYS[2], 4)]
    # And what a crash left lying about is no row.
    (out / f"day={DAYS[2]}" / "_temporary").mkdir()
    assert write_table(spark, second, str(out))() == 2
    assert content(spark, out) == [(DAYS[0], 2), (DAYS[2], 4)]


def test_a_span_leaves_other_days_alone(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "t"
    write_table(spark, table(spark, *[(day, 1) for day in DAYS]), str(out))
    span = DaySpan(date(2026, 1, 2), date(2026, 1, 2))
    new = table(spark, (DAYS[0], 9), (DAYS[1], 2), (DAYS[1], 3))
    assert write_table(spark, new, str(out), span=span)() == 2
    assert content(spark, out) == [(DAYS[0], 1), (DAYS[1], 2), (DAYS[1], 3), (DAYS[2], 1)]
    assert write_table(spark, table(spark), str(out), span=span)() == 0
    assert content(spark, out) == [(DAYS[0], 1), (DAYS[2], 1)]


def test_a_table_without_rows_has_columns(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "t"
    assert write_table(spark, table(spark), str(out))() == 0
    frame = spark.read.parquet(str(out))
    assert (frame.count(), frame.columns) == (0, ["time", "number", "day"])
    assert write_table(spark, table(spark, (DAYS[0], 1)), str(out))() == 1
    assert content(spark, out) == [(DAYS[0], 1)]


def test_an_optional_table_without_rows_leaves_no_directory(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, nothing = tmp_path / "t", replace(table(spark), optional=True)
    assert write_table(spark, nothing, str(out))() == 0
    assert not out.exists()
    # What an earlier run has left goes as far as the run covers it.
    some = replace(table(spark, *[(day, 1) for day in DAYS[:2]]), optional=True)
    assert write_table(spark, some, str(out))() == 2
    second_day = DaySpan(date(2026, 1, 2), date(2026, 1, 2))
    assert write_table(spark, nothing, str(out), span=second_day)() == 0
    assert content(spark, out) == [(DAYS[0], 1)]
    assert write_table(spark, nothing, str(out))() == 0
    assert not out.exists()


def test_a_small_table_is_written_whole(spark: SparkSession, tmp_path: Path) -> None:
    for count in (3, 2):
        small = Table(spark.range(count).toDF("number"), None, ("number",))
        assert write_table(spark, small, str(tmp_path / "t"))() == count


def test_the_days_of_times() -> None:
    day_us = 86_400_000_000
    assert span_of(None, None) == DaySpan(None, None)
    assert span_of(0, day_us) == DaySpan(date(1970, 1, 1), date(1970, 1, 1))
    assert span_of(day_us + 1, 2 * day_us + 1) == DaySpan(date(1970, 1, 2), date(1970, 1, 3))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_format_whose_package_is_missing_is_told(spark: SparkSession, kind: str) -> None:
    minor = ".".join(spark.version.split(".")[:2])
    package = rf"\S+{kind}-spark\S*[-_]{minor}_2\.13:VERSION"
    told = f"--format {kind} needs its package: add --packages {package}"
    with pytest.raises(PipelineError, match=told):
        check_format(spark, kind)
