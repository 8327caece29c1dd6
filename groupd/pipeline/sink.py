"""Writes results: one directory for each table, and in it one directory for each day.

A repeated run leaves the same rows as a single run. A run covers a span of days, all days unless it
was given times. Days in the span are replaced as a whole, days for which the result has
no rows are removed, and days outside the span are not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.files import delete, directories, exists
from groupd.pipeline.job import Table

FORMATS = ("parquet", "delta", "iceberg")
DAY = "day"
_CLASSES = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.SparkCatalog",
}
_PACKAGES = {
    "delta": "io.delta:delta-spark_{spark}_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13",
}
"""The packages of the table formats; each is made for one minor version of Spark."""
_NO_DAY = "__HIVE_DEFAULT_PARTITION__"


class DaySpan(Struct, frozen=True):
    """The days from `first` to `last`, both included; None means without an end."""

    first: date | None = None
    last: date | None = None

    def __contains__(self, day: date | None) -> bool:
        """Rows without a time (day None) belong only to a span that is open at both ends."""
        if day is None:
            return self.first is None and self.last is None
        if self.first is not None and day < self.first:
            return False
        return self.last is None or day <= self.last


def span_of(from_us: int | None, until_us: int | None) -> DaySpan:
    """The days that [from, until) touches."""
    return DaySpan(
        None if from_us is None else _day(from_us),
        None if until_us is None else _day(until_us - 1),
    )


def _day(micros: int) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).date()


def check_format(spark: SparkSession, kind: str) -> None:
    """Raises PipelineError if the package of a format is not installed."""
    if kind not in _CLASSES:
        return
    assert spark._jvm is not None
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    resource = _CLASSES[kind].replace(".", "/") + ".class"
    if loader.getResource(resource) is None:
        minor = ".".join(spark.version.split(".")[:2])
        package = _PACKAGES[kind].format(spark=minor)
        raise PipelineError(
            f"--format {kind} needs its package: add --packages {package}:VERSION "
            f"(it must be the one for Spark {minor})"
        )


def write_table(
    spark: SparkSession, table: Table, path: str, kind: str = "parquet", span: DaySpan | None = None
) -> Callable[[], int]:
    """Writes the rows of a table at `path`. Returns a function that counts the rows that are now
    there for the span, with a query of its own. An optional table without rows is removed, except a
    Delta or Iceberg table, which is kept for its history."""
    frame = table.frame
    span = span or DaySpan()
    if table.time_column is None:
        frame.write.format(kind).mode("overwrite").save(path)
        return lambda: spark.read.format(kind).load(path).count()
    frame = frame.withColumn(DAY, F.to_date(F.col(table.time_column)))
    if kind == "parquet":
        return _write_days(spark, frame, path, span, keep_empty=not table.optional)
    if table.optional and not exists(spark, path) and frame.isEmpty():
        return lambda: 0
    writer = frame.write.format(kind).partitionBy(DAY).mode("overwrite")
    condition = _condition(span)
    if kind == "delta" and condition is not None and exists(spark, path):
        writer = writer.option("replaceWhere", condition)
    writer.save(path)

    def count() -> int:
        found = spark.read.format(kind).load(path)
        return (found if condition is None else found.where(condition)).count()

    return count


def _condition(span: DaySpan) -> str | None:
    parts = []
    if span.first is not None:
        parts.append(f"{DAY} >= DATE'{span.first}'")
    if span.last is not None:
        parts.append(f"{DAY} <= DATE'{span.last}'")
    return " AND ".join(parts) or None


def _write_days(
    spark: SparkSession, frame: DataFrame, path: str, span: DaySpan, *, keep_empty: bool
) -> Callable[[], int]:
    before = directories(spark, path, f"{DAY}=")
    frame.where(_condition(span) or "TRUE").write.mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).partitionBy(DAY).parquet(path)
    after = directories(spark, path, f"{DAY}=")
    # Spark gives files new names in every run, so a day with the same files was not written.
    covered = _days(span, after)
    new = [day for day in covered if after[day] != before.get(day)]
    for day in covered:
        if day not in new:
            delete(spark, f"{path}/{day}")
    if not new:
        if len(after) == len(covered) and not keep_empty:
            delete(spark, path)
        elif len(after) == len(covered):
            # Without any file, a reader could not find out the columns of the table.
            frame.limit(0).drop(DAY).coalesce(1).write.parquet(f"{path}/{DAY}={_NO_DAY}")
        return lambda: 0
    paths = [f"{path}/{day}" for day in new]
    return lambda: spark.read.option("basePath", path).parquet(*paths).count()


def _days(span: DaySpan, directories: dict[str, frozenset[str]]) -> list[str]:
    found = []
    for name in directories:
        text = name.removeprefix(f"{DAY}=")
        day = None if text == _NO_DAY else date.fromisoformat(text)
        if day in span:
            found.append(name)
    return found
