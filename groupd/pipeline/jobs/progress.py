"""The progress of groups: what was consumed in each window of time, how large the lag was, and
where nothing moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from groupd.pipeline.errors import at_least_one, length
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs.commits import INPUT, RETENTION, history
from groupd.pipeline.options import parse_time
from groupd.pipeline.windows import PLACE, filled, moves_by_window, with_lag

BEHIND, BEHIND_AT_THE_END, OTHERS_MOVED = "lag", "lag at the end", "others moved"
"""The reasons why a window counts as stuck, best evidence first (which is also their order as
text)."""


def with_stuck(rows: DataFrame, place: Sequence[str]) -> DataFrame:
    """Adds to `rows`, the windows of partitions without gaps: `others_moved`, `still_windows` (the
    number of windows in a row without a move, including this one) and `stuck` (the evidence, or
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


# The log tells committed offsets only, so a consumer that commits rarely looks slow between
# commits.


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    window = length(options["window"])
    stalled_windows = at_least_one(options, "stalled_windows")
    rewound_by = at_least_one(options, "rewound_by")
    until = parse_time(str(options["until"])) if options["until"] else None
    commits = history(inputs.entries, options)
    # Cached: small compared with the log, and needed for both tables and for the end of the input.
    moves = moves_by_window(commits, window).persist(StorageLevel.MEMORY_AND_DISK)
    windows = _per_window(moves, inputs.end_offsets, window, until)
    found = _stalls(windows, stalled_windows).unionByName(_rewinds(moves, rewound_by))
    return {
        "progress": Table(windows.drop("stuck"), "window_start", ("window_start", *PLACE)),
        "progress_findings": Table(
            found, "from_time", ("finding", *PLACE, "from_time", "log_offset")
        ),
    }


def _per_window(
    moves: DataFrame, end_offsets: DataFrame, window: timedelta, until_us: int | None
) -> DataFrame:
    """The rows of `progress`, with `stuck`."""
    rows = filled(moves, end_offsets, window, until_us)
    rows = with_stuck(with_lag(rows, end_offsets), PLACE)
    return rows.select(
        *("window_start", "window_end", "group", "topic", "partition", "commits"),
        *("start_offset", "offset", "consumed"),
        (f.col("consumed") / f.lit(window.total_seconds())).alias("rate"),
        *("skipped", "rewound", "moved", "others_moved", "still_windows"),
        *("end_offset", "lag", "log_partition", "stuck"),
    )


def _stalls(windows: DataFrame, at_least: int) -> DataFrame:
    nothing = f.lit(None)
    return runs(windows, PLACE, at_least).select(
        f.lit("stalled").alias("finding"),
        *("from_time", "until_time", "group", "topic", "partition"),
        *("windows", "offset", "lag", "evidence"),
        *(nothing.cast("long").alias(name) for name in ("previous_offset", "jump")),
        *(nothing.cast("string").alias(name) for name in ("actor", "member", "client_id")),
        "log_partition",
        f.lit(-1).cast("long").alias("log_offset"),
    )


def _rewinds(moves: DataFrame, at_least: int) -> DataFrame:
    found = moves.select(*PLACE, f.explode("_rewinds").alias("_one"))
    one = {
        name: f.col(f"_one.{name}")
        for name in ("offset", "previous_offset", "jump", "actor", "member", "client_id")
    }
    return found.where(f.col("_one.jump") <= -at_least).select(
        f.lit("rewound").alias("finding"),
        f.col("_one.effective_time").alias("from_time"),
        f.col("_one.effective_time").alias("until_time"),
        *("group", "topic", "partition"),
        f.lit(None).cast("int").alias("windows"),
        one["offset"].alias("offset"),
        f.lit(None).cast("long").alias("lag"),
        f.col("_one.kind").alias("evidence"),
        *(one[name].alias(name) for name in ("previous_offset", "jump")),
        *(one[name].alias(name) for name in ("actor", "member", "client_id")),
        "log_partition",
        f.col("_one.log_offset").alias("log_offset"),
    )


JOB = Job(
    "progress",
    "consumption and lag in windows of time; what stood still, what was rewound",
    build,
    {
        "window": "5m",
        "stalled_windows": 3,
        "rewound_by": 1,
        "until": "",
        **RETENTION,
    },
    columns=INPUT,
    ends_every="window",
)
