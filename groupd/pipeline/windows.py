"""Committed offsets by window of time, and their lag behind the end offsets at that time."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from groupd.coordinator.history.changes import ChangeKind


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


# Windows ------------------------------------------------------------------------------------

# Each partition with a committed offset has a row in every window from its first commit until the
# offset is removed or the input ends. Windows in which nothing happened have a row too, because
# they show what stood still.

PLACE = ("log_partition", "group", "topic", "partition")


def moves_by_window(commits: DataFrame, window: timedelta) -> DataFrame:
    """One row for each partition and each window in which a commit or a tombstone took effect.
    `commits`: the table of the job `commits`."""
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


def _end_of_input(moves: DataFrame, end_offsets: DataFrame, until_us: int | None) -> DataFrame:
    """One row with the end of the input: the last instant that is known."""
    times = moves.select(f.max("_last_time").alias("_time")).union(
        end_offsets.select(f.max("time"))
    )
    until = f.lit(None) if until_us is None else f.timestamp_micros(f.lit(until_us))
    return times.select(f.greatest(f.max("_time"), until).alias("_until"))


def filled(
    moves: DataFrame, end_offsets: DataFrame, window: timedelta, until_us: int | None
) -> DataFrame:
    """Adds the windows in which nothing happened to an existing offset, until the input ends. It
    ends at `until_us` if that is later than everything that is known. `is_last`: the input ends in
    that window. `known_until`: the end of the window, or of the input. `committed_at`: when the
    last change of the offset counted."""
    until = _end_of_input(moves, end_offsets, until_us)
    following = f.lead("window_start").over(Window.partitionBy(*PLACE).orderBy("window_start"))
    start, step = f.col("window_start"), f.lit(window)
    rows = moves.drop("_rewinds").withColumn("_following", following)
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
    return (
        rows.withColumn("is_last", f.col("window_end") > f.col("_until"))
        .withColumn("known_until", f.least("window_end", "_until"))
        .withColumnRenamed("_last_time", "committed_at")
        .drop("_window", "_filled", "_following", "_until")
    )
