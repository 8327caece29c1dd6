"""How groups got on: what was consumed in each window of time, how far behind, and where not.

A window has a row for each partition with a committed offset, from its first commit until the
offset is removed or the input ends, also when nothing happened: only so can be seen what stood
still. Committed offsets are what a log tells; a consumer that commits rarely looks slow until it
commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from coordinator.history.changes import ChangeKind
from coordinator.history.ledger import DEFAULT_RETENTION_MS
from pipeline.ends import with_lag
from pipeline.errors import PipelineError
from pipeline.job import Inputs, Job, Table
from pipeline.jobs.commits import INPUT, history
from pipeline.options import parse_time
from pipeline.settings import length
from pipeline.stalls import runs, with_stuck

PLACE = ("log_partition", "group", "topic", "partition")
_MS_PER_MINUTE = 60_000


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    window = length(options["window"])
    stalled_windows = _at_least_one(options, "stalled_windows")
    rewound_by = _at_least_one(options, "rewound_by")
    until = parse_time(str(options["until"])) if options["until"] else None
    commits = history(inputs.entries, int(options["retention_minutes"]) * _MS_PER_MINUTE)
    # Small against the log, and needed for both tables and for the end of time.
    moves = _moves(commits, window).persist(StorageLevel.MEMORY_AND_DISK)
    windows = _per_window(moves, inputs.end_offsets, window, until)
    found = _stalls(windows, stalled_windows).unionByName(_rewinds(moves, rewound_by))
    return {
        "progress": Table(windows.drop("stuck"), "window_start", ("window_start", *PLACE)),
        "progress_findings": Table(
            found, "from_time", ("finding", *PLACE, "from_time", "log_offset")
        ),
    }


def _at_least_one(options: Mapping[str, Any], name: str) -> int:
    try:
        value = int(options[name])
    except (TypeError, ValueError):
        value = 0
    if value < 1:
        raise PipelineError(f"{name} must be a number from 1 on, not {options[name]}")
    return value


def _moves(commits: DataFrame, window: timedelta) -> DataFrame:
    """One row a partition and window in which something counted."""
    jump, kind, order = f.col("jump"), f.col("kind"), f.col("effective_offset")
    rewind = f.struct(
        "effective_time",
        "kind",
        "previous_offset",
        "offset",
        "jump",
        "actor",
        "member",
        "client_id",
        "log_offset",
    )
    length_text = f"{window // timedelta(milliseconds=1)} milliseconds"
    by_window = commits.where("effective").groupBy(
        *PLACE, f.window("effective_time", length_text).alias("_window")
    )
    return (
        by_window.agg(
            f.count(f.when(f.col("offset").isNotNull(), 1)).alias("commits"),
            f.min_by("previous_offset", order).alias("start_offset"),
            f.max_by("offset", order).alias("offset"),
            _total(f.when(kind == ChangeKind.FORWARD.value, jump)).alias("consumed"),
            _total(f.when((kind == ChangeKind.RESET.value) & (jump > 0), jump)).alias("skipped"),
            _total(f.when(jump < 0, -jump)).alias("rewound"),
            f.max((kind == ChangeKind.FIRST.value) | f.coalesce(jump > 0, f.lit(False))).alias(
                "moved"
            ),
            f.max("effective_time").alias("_last_time"),
            f.collect_list(f.when(jump < 0, rewind)).alias("_rewinds"),
        )
        .select(
            "*",
            f.col("_window.start").alias("window_start"),
        )
        .drop("_window")
    )


def _total(amounts: Column) -> Column:
    return f.coalesce(f.sum(amounts), f.lit(0))


def _per_window(
    moves: DataFrame, end_offsets: DataFrame, window: timedelta, until_us: int | None
) -> DataFrame:
    """The rows of `progress`, with `stuck`."""
    rows = _filled(moves, _end_of_input(moves, end_offsets, until_us), window)
    rows = with_stuck(with_lag(rows, end_offsets), PLACE)
    return rows.select(
        *("window_start", "window_end", "group", "topic", "partition", "commits"),
        *("start_offset", "offset", "consumed"),
        (f.col("consumed") / f.lit(window.total_seconds())).alias("rate"),
        *("skipped", "rewound", "moved", "others_moved", "still_windows"),
        *("end_offset", "lag", "log_partition", "stuck"),
    )


def _end_of_input(moves: DataFrame, end_offsets: DataFrame, until_us: int | None) -> DataFrame:
    """One row: the last thing that is known."""
    times = moves.select(f.max("_last_time").alias("_time")).union(
        end_offsets.select(f.max("time"))
    )
    told = f.lit(None) if until_us is None else f.timestamp_micros(f.lit(until_us))
    return times.select(f.greatest(f.max("_time"), told).alias("_until"))


def _filled(moves: DataFrame, until: DataFrame, window: timedelta) -> DataFrame:
    """With the windows in which nothing happened to an offset that was there. `is_last`: the
    input ends in that window."""
    following = f.lead("window_start").over(Window.partitionBy(*PLACE).orderBy("window_start"))
    start, step = f.col("window_start"), f.lit(window)
    rows = moves.drop("_last_time", "_rewinds").withColumn("_following", following)
    rows = rows.crossJoin(f.broadcast(until))
    last = f.greatest(start, f.coalesce(f.col("_following") - step, f.col("_until")))
    starts = f.when(f.col("offset").isNull(), f.array(start)).otherwise(
        f.sequence(start, last, step)
    )
    rows = rows.withColumn("_window", f.explode(starts)).withColumn(
        "_filled", f.col("_window") > start
    )
    quiet = {
        name: f.when(~f.col("_filled"), f.col(name)).otherwise(value)
        for name, value in (
            ("start_offset", f.col("offset")),
            *((name, f.lit(0)) for name in ("commits", "consumed", "skipped", "rewound")),
            ("moved", f.lit(False)),
        )
    }
    rows = rows.withColumns({**quiet, "window_start": f.col("_window")})
    rows = rows.withColumn("window_end", f.col("window_start") + step)
    return rows.withColumn("is_last", f.col("window_end") > f.col("_until")).drop(
        "_window", "_filled", "_following", "_until"
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
        "retention_minutes": DEFAULT_RETENTION_MS // _MS_PER_MINUTE,
    },
    columns=INPUT,
)
