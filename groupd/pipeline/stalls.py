"""Finds partitions that stood still although there was something to consume."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

BEHIND, BEHIND_AT_THE_END, OTHERS_MOVED = "lag", "lag at the end", "others moved"
"""The reasons why a window counts as stuck, best evidence first (which is also their order as
text)."""


def with_stuck(rows: DataFrame, place: Sequence[str]) -> DataFrame:
    """`rows` are windows of partitions, without gaps. Adds `others_moved`, `still_windows` (the
    number of windows in a row without a move, this one included) and `stuck` (the evidence, or
    null).

    A window without a move is stuck if the group had lag when the window began. Often that is not
    known, because end offsets are known only for the end of the input. Then the window is not stuck
    if the group had caught up at the end; it is stuck if other partitions of the topic moved, or if
    the group had lag at the end.
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
    """Runs of at least `at_least` stuck windows in a row. `until_time` is the end of the run, or of
    the input; `offset` and `lag` are those of its last window."""
    in_order = Window.partitionBy(*place).orderBy("window_start")
    found = windows.withColumn("_number", f.row_number().over(in_order))
    # In an unbroken run, window number minus rank is the same for every window.
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
