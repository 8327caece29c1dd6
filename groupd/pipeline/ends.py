"""End offsets of partitions as of an instant, and how far a group is behind them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f


def with_lag(rows: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Returns `rows` (topic, partition, offset, window_end, is_last) with two more columns:
    `end_offset`, the last one known at `window_end`, and `lag`. `lag` is null where either offset
    is not known, and 0 where the known end is older than the commit.

    End offsets without a time are those at the end of the input (`is_last`); they say nothing about
    earlier windows.
    """
    timed = f.col("time").isNotNull()
    now = (
        end_offsets.where(~timed)
        .groupBy("topic", "partition")
        .agg(f.max("end_offset").alias("_now"))
    )
    ends = end_offsets.where(timed).select(
        "topic", "partition", f.col("time").alias("_time"), f.col("end_offset").alias("_end")
    )
    known = (
        rows.withColumn("_time", f.col("window_end"))
        .withColumn("_row", f.lit(True))
        .unionByName(ends, allowMissingColumns=True)
    )
    # At the same instant the end offset comes before the row: null sorts before true.
    before = (
        Window.partitionBy("topic", "partition")
        .orderBy("_time", f.col("_row").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = known.withColumn("_end", f.last("_end", ignorenulls=True).over(before)).where("_row")
    known = known.join(f.broadcast(now), ["topic", "partition"], "left").withColumn(
        "end_offset", f.coalesce(f.when(f.col("is_last"), f.col("_now")), f.col("_end"))
    )
    behind = f.col("end_offset") - f.col("offset")
    lag = f.when(behind.isNotNull(), f.greatest(behind, f.lit(0)))
    return known.withColumn("lag", lag).drop("_time", "_row", "_end", "_now")


def with_lag_seconds(rows: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Returns `rows` (topic, partition, offset, lag, at) with `lag_seconds`: how long before `at`
    the first record was written that the group has not consumed; 0 without lag.

    The time of that record is estimated from end offsets with a time. It lies between the last end
    that is not beyond the offset and the next one, and records are assumed to be spread evenly
    between the two. Null where one of the two is not known.
    """
    ends = end_offsets.where("time IS NOT NULL AND end_offset IS NOT NULL").select(
        "topic",
        "partition",
        f.col("end_offset").alias("_position"),
        f.col("time").alias("_time"),
        f.struct(f.col("end_offset").alias("end"), f.col("time")).alias("_end"),
    )
    known = rows.withColumns({"_position": f.col("offset"), "_row": f.lit(True)}).unionByName(
        ends, allowMissingColumns=True
    )
    # End offsets come before rows at the same position: null sorts before true.
    order = Window.partitionBy("topic", "partition").orderBy(
        "_position", f.col("_row").asc_nulls_first(), "_time"
    )
    known = known.withColumns(
        {
            "_before": f.last("_end", ignorenulls=True).over(
                order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
            ),
            "_after": f.first("_end", ignorenulls=True).over(
                order.rowsBetween(Window.currentRow, Window.unboundedFollowing)
            ),
        }
    ).where("_row")
    before, after = _micros("_before.time"), _micros("_after.time")
    share = (f.col("offset") + 1 - f.col("_before.end")) / (
        f.col("_after.end") - f.col("_before.end")
    )
    written = before + (after - before) * share
    seconds = (_micros("at") - written) / 1_000_000
    # End offsets that go back belong to a topic that was deleted and created again.
    sure = (before <= after) & (before <= _micros("at"))
    return known.withColumn(
        "lag_seconds",
        f.when(f.col("lag") == 0, f.lit(0.0)).when(
            (f.col("lag") > 0) & sure, f.round(f.greatest(seconds, f.lit(0.0)), 3)
        ),
    ).drop("_position", "_row", "_time", "_end", "_before", "_after")


def _micros(column: str) -> Column:
    return f.unix_micros(f.col(column))
