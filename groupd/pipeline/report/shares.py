"""The part of the report about share groups: collected from the tables of the jobs `redeliveries`
and `share-states`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as f

from groupd.pipeline.report.model import (
    ReportExtent,
    SharePart,
    ShareRange,
    ShareRow,
    downsample,
)
from groupd.pipeline.share_ranges import PLACE

SHARE_TABLES = ("redeliveries", "redelivered", "share-states")
"""The tables that are read, where a log has share groups."""

ROWS_MAX = 300
RANGES_MAX = 100
_TREND_STEPS = 48
_TOTALS = ("accepted", "released", "archived", "redelivered")


def share_part(tables: Mapping[str, DataFrame], extent: ReportExtent) -> SharePart:
    """The share-partitions with most redeliveries, and the records that were delivered most often.
    Empty if `tables` has not those of share groups."""
    if not set(SHARE_TABLES) <= set(tables):
        return SharePart()
    windows, records, states = (tables[name] for name in SHARE_TABLES)
    totals = windows.groupBy(*PLACE).agg(
        f.first("topic").alias("topic"),
        *(f.sum(name).alias(name) for name in _TOTALS),
        f.max("most_deliveries").alias("most_deliveries"),
    )
    now = states.select(
        *PLACE, "start_offset", "lag", f.unix_millis("start_since").alias("since_ms")
    )
    every = totals.join(now, [*PLACE], "left")
    most = [f.col(name).desc() for name in ("redelivered", "archived")]
    found = every.orderBy(*most, *PLACE).limit(ROWS_MAX).collect()
    trends = _trends(windows, extent, found)
    return SharePart(
        [_row(row, trends, extent) for row in found],
        every.count() - len(found),
        [_range(row) for row in _ranges(records)],
    )


def _row(row: Row, trends: Mapping[Any, Sequence[float | None]], extent: ReportExtent) -> ShareRow:
    return ShareRow(
        row.group,
        row.topic or row.topic_id,
        row.partition,
        row.accepted,
        row.released,
        row.archived,
        row.redelivered,
        row.most_deliveries or 0,
        row.start_offset,
        None if row.since_ms is None else max(0, extent.end_ms - row.since_ms),
        row.lag,
        trends.get(_place(row), ()),
    )


def _trends(
    windows: DataFrame, extent: ReportExtent, rows: Sequence[Row]
) -> dict[Any, list[float | None]]:
    """Redeliveries over time, in a few steps, by share-partition."""
    step = -(-extent.steps // _TREND_STEPS)
    at = ((f.unix_millis("window_start") - extent.start_ms) / (extent.step_ms * step)).cast("int")
    wanted = {_place(row) for row in rows if row.redelivered}
    trends: dict[Any, list[float | None]] = {
        place: [0.0] * (-(-extent.steps // step)) for place in wanted
    }
    found = (
        windows.where("redelivered > 0")
        .groupBy(*PLACE, at.alias("at"))
        .agg(f.sum("redelivered").alias("redelivered"))
    )
    names = sorted({row.group for row in rows})
    for row in found.where(f.col("group").isin(names)).collect():
        values = trends.get(_place(row))
        if values is not None and 0 <= row.at < len(values):
            values[row.at] = row.redelivered
    return {place: downsample(values, _TREND_STEPS) for place, values in trends.items()}


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def _ranges(records: DataFrame) -> list[Row]:
    """At most ten ranges of a share-partition, so that one of them does not fill the list."""
    order = Window.partitionBy(*PLACE).orderBy("rank")
    few = records.withColumn("_rank", f.row_number().over(order)).where(f.col("_rank") <= 10)
    last = f.unix_millis("last_time").alias("last_ms")
    most = [f.col(name).desc() for name in ("deliveries", "releases")]
    ordered = few.select("*", last).orderBy(*most, *PLACE, "first_offset")
    return ordered.limit(RANGES_MAX).collect()


def _range(row: Row) -> ShareRange:
    return ShareRange(
        row.group,
        row.topic or row.topic_id,
        row.partition,
        row.first_offset,
        row.last_offset,
        row.deliveries,
        row.outcome,
        row.last_ms,
    )
