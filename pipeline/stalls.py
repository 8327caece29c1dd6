"""Partitions that stood still although there was something to consume."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

BEHIND, BEHIND_AT_THE_END, OTHERS_MOVED = "lag", "lag at the end", "others moved"
"""Why a window counts as stuck, the best evidence first (as text sorts, too)."""


def with_stuck(rows: DataFrame, place: Sequence[str]) -> DataFrame:
    """`rows`: windows of partitions without a gap. Adds `others_moved`, `still_windows` (in a row
    without a move, this one included) and `stuck`: the evidence, or null.

    A window without a move is stuck if the group was behind when it began. Where that is not
    known, because ends are known for the end of the input only, it is not if the group had caught
    up by then; it is if other partitions of the topic moved, or if at the end it was behind.
    """
    in_order = Window.partitionBy(*place).orderBy("window_start")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    together = Window.partitionBy("log_partition", "group", "topic", "window_start")
    since_move = Window.partitionBy(*place, "_moved")
    rows = rows.withColumn("others_moved", f.max("moved").over(together) & ~f.col("moved"))
    rows = rows.withColumn("_number", f.row_number().over(in_order)).withColumn(
        "_moved", f.last(f.when(f.col("moved"), f.col("_number")), ignorenulls=True).over(so_far)
    )
    rows = rows.withColumn("_behind", f.lag("lag").over(in_order) > 0)
    only_at_end = f.when(f.col("is_last") & f.col("_behind").isNull(), f.col("lag"))
    rows = rows.withColumn("_end_lag", f.max(only_at_end).over(since_move))
    evidence = (
        f.when(f.col("moved") | f.col("offset").isNull(), None)
        .when(f.col("_behind").isNotNull(), f.when(f.col("_behind"), BEHIND))
        .when(f.col("_end_lag") == 0, None)
        .when(f.col("others_moved"), OTHERS_MOVED)
        .when(f.col("_end_lag") > 0, BEHIND_AT_THE_END)
    )
    still = (f.col("_number") - f.coalesce("_moved", f.lit(0))).cast("int")
    return rows.withColumns({"stuck": evidence, "still_windows": still}).drop(
        "_number", "_moved", "_behind", "_end_lag"
    )


def runs(windows: DataFrame, place: Sequence[str], at_least: int) -> DataFrame:
    """Stuck windows in a row, from `at_least` on. `until_time` is the end of the run, or of the
    input; `offset` and `lag` are those of its last window."""
    in_order = Window.partitionBy(*place).orderBy("window_start")
    found = windows.withColumn("_number", f.row_number().over(in_order))
    # Consecutive numbers without a break differ from their rank by the same amount.
    rank = f.row_number().over(in_order)
    found = found.where("stuck IS NOT NULL").withColumn("_run", f.col("_number") - rank)
    last = f.col("window_start")
    return (
        found.groupBy(*place, "_run")
        .agg(
            f.min("window_start").alias("from_time"),
            f.max("window_end").alias("until_time"),
            f.count("*").cast("int").alias("windows"),
            f.max_by("offset", last).alias("offset"),
            f.max_by("lag", last).alias("lag"),
            f.min("stuck").alias("evidence"),
        )
        .where(f.col("windows") >= at_least)
    )
