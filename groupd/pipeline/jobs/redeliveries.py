"""What share groups did with their records in each window of time, and which records they got again
and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from groupd.pipeline.errors import PipelineError, length
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.logs import SHARE_STATE
from groupd.pipeline.share_ranges import (
    ANSWERS,
    INPUT,
    LIFE,
    PLACE,
    answer,
    changes,
    lives,
    with_topic,
)

_WINDOW = ("window_start", "window_end")


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    window = f"{length(options['window']).total_seconds()} seconds"
    top, at_least = (_at_least_one(options, name) for name in ("top", "deliveries"))
    # Cached, because both tables are made from them.
    rows = lives(inputs.entries).persist(StorageLevel.MEMORY_AND_DISK)
    changed = changes(rows).persist(StorageLevel.MEMORY_AND_DISK)
    windows = with_topic(_windows(rows, changed, window), inputs.topics)
    records = with_topic(_redelivered(changed, at_least, top), inputs.topics)
    return {
        "redeliveries": Table(
            windows.select(
                *_WINDOW,
                *("group", "topic", "partition", *ANSWERS, "redelivered", "most_deliveries"),
                *("deliveries", "start_offset", "start_moved", "begun", "still_ms"),
                *("topic_id", "log_partition"),
            ),
            "window_start",
            ("window_start", *PLACE),
        ),
        "redelivered": Table(
            records.select(
                *("group", "topic", "partition", "first_offset", "last_offset", "deliveries"),
                *("outcome", "releases", "first_time", "last_time", "rank", "topic_id"),
                *("log_partition", "log_offset"),
            ),
            "last_time",
            (*PLACE, "first_offset", "log_offset"),
        ),
    }


def _at_least_one(options: Mapping[str, Any], name: str) -> int:
    value = int(options[name])
    if value < 1:
        raise PipelineError(f"{name} must be a whole number, at least 1, not {value}")
    return value


def _windows(rows: DataFrame, changed: DataFrame, window: str) -> DataFrame:
    """One row for each share-partition and each window in which its state was written."""
    at = f.window("timestamp", window)
    still = f.unix_millis("timestamp") - f.unix_millis("since")
    starts = rows.groupBy(*PLACE, at.alias("_window")).agg(
        f.max_by("start_offset", "log_offset").alias("start_offset"),
        f.sum("moved").alias("start_moved"),
        f.sum(f.col("begins").cast("int")).alias("begun"),
        f.max(still).alias("still_ms"),
    )
    by_count = (
        changed.where(f.col("answer").isNotNull())
        .groupBy(*PLACE, at.alias("_window"), "delivery_count")
        .agg(*(_sum_of(name).alias(name) for name in ANSWERS))
    )
    again = f.when(f.col("delivery_count") > 1, sum((f.col(name) for name in ANSWERS), f.lit(0)))
    answers = by_count.groupBy(*PLACE, "_window").agg(
        *(f.sum(name).alias(name) for name in ANSWERS),
        f.coalesce(f.sum(again), f.lit(0)).alias("redelivered"),
        f.max("delivery_count").alias("most_deliveries"),
        f.array_sort(f.collect_list(f.struct("delivery_count", *ANSWERS))).alias("deliveries"),
    )
    found = starts.join(answers, [*PLACE, "_window"], "left")
    found = found.fillna(0, [*ANSWERS, "redelivered"])
    return found.select(
        "*", f.col("_window.start").alias("window_start"), f.col("_window.end").alias("window_end")
    ).drop("_window")


def _sum_of(name: str) -> Column:
    return f.coalesce(f.sum(f.when(f.col("answer") == name, f.col("records"))), f.lit(0))


def _redelivered(changed: DataFrame, at_least: int, top: int) -> DataFrame:
    """The ranges that were delivered most often, at most `top` of each share-partition."""
    now = f.struct("delivery_count", "delivery_state", "log_offset")
    found = (
        changed.groupBy(*LIFE, "first_offset", "last_offset")
        .agg(
            f.max(now).alias("_now"),
            f.count(f.when(f.col("answer") == "released", 1)).alias("releases"),
            f.min("timestamp").alias("first_time"),
            f.max("timestamp").alias("last_time"),
        )
        .select("*", "_now.*")
        .where(f.col("delivery_count") >= at_least)
    )
    order = Window.partitionBy(*PLACE).orderBy(f.col("delivery_count").desc(), "first_offset")
    found = found.withColumn("rank", f.row_number().over(order)).where(f.col("rank") <= top)
    return found.withColumnRenamed("delivery_count", "deliveries").withColumn("outcome", answer())


JOB = Job(
    "redeliveries",
    "what share groups accepted, released and gave up, and the records they got again and again",
    build,
    {"window": "5m", "deliveries": 2, "top": 100},
    columns=INPUT,
    log=SHARE_STATE,
)
