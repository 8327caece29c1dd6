"""Ends of partitions as of an instant, and how far behind them a group is."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f


def with_lag(rows: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """`rows` (topic, partition, offset, window_end, is_last) with `end_offset`, the last known at
    `window_end`, and `lag`: null where either offset is not known, 0 where the end that is known
    is older than the commit.

    Ends without a time are those at the end of the input (`is_last`), and say nothing of before.
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
    # At the same instant the end comes first: null sorts before true.
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
