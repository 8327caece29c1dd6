"""Turns the tables of the jobs into a `Report`. Rows are ranked and limited in Spark, before they
are collected."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import convert
from msgspec.json import decode
from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as f

from groupd.pipeline.jobs.redeliveries import ANSWERS, PLACE
from groupd.pipeline.report.details import details_of
from groupd.pipeline.report.model import (
    DEFAULT_LIMITS,
    GroupRow,
    Report,
    ReportExtent,
    ReportFinding,
    ReportLimits,
    SharePart,
    ShareRange,
    ShareRow,
    downsample,
)

TABLES = (
    "progress",
    "progress_findings",
    "members",
    "member_epochs",
    "ownership",
    "rebalances",
    "health",
    "findings",
)
"""The tables that are read: results of the jobs progress, members, rebalances and health."""

SHARE_TABLES = ("redeliveries", "redelivered")
"""The tables that are read besides, where a log has share groups."""

FINDINGS_MAX = 300
REWINDS_MAX = 100
SHARE_ROWS_MAX = 300
SHARE_RANGES_MAX = 100
REWOUND = "rewound"
_TREND_STEPS = 48
_ORDER = {"critical": 0, "warning": 1, "info": 2}


def millis(column: str) -> Any:
    return f.unix_millis(column).alias(column)


def collect_report(
    tables: Mapping[str, DataFrame],
    source: str,
    step_ms: int,
    limits: ReportLimits = DEFAULT_LIMITS,
) -> Report:
    """The report. `tables`: those of `TABLES`, and of `SHARE_TABLES` if the log has share groups.
    `step_ms`: the window with which `progress` was made."""
    extent = _extent(tables, step_ms)
    rows, left_out = _group_rows(tables, extent, limits)
    findings = [*_findings(tables["findings"]), *_rewinds(tables["progress_findings"])]
    rows = [_with_rewinds(row, findings) for row in rows]
    shown = [row.name for row in rows[: limits.details]]
    details = details_of(tables, extent, [row for row in rows if row.name in set(shown)], findings)
    counts = {
        "groups": len(rows) + left_out,
        "commits": _sum(tables["progress"], "commits"),
        "member lives": tables["members"].count(),
        "rebalances": tables["rebalances"].count(),
    }
    by_severity = {
        row.severity: row["count"]
        for row in tables["findings"].groupBy("severity").count().collect()
    }
    left = sum(by_severity.values()) - sum(one.kind != REWOUND for one in findings)
    by_severity["info"] = by_severity.get("info", 0) + sum(one.kind == REWOUND for one in findings)
    return Report(
        source,
        extent.start_ms,
        extent.end_ms,
        int(time.time() * 1000),
        extent.steps,
        counts,
        by_severity,
        findings,
        left,
        rows,
        left_out,
        details,
        _shares(tables, extent) if set(SHARE_TABLES) <= set(tables) else SharePart(),
    )


def _sum(frame: DataFrame, column: str) -> int:
    return int(frame.agg(f.sum(column)).collect()[0][0] or 0)


def _extent(tables: Mapping[str, DataFrame], step_ms: int) -> ReportExtent:
    """The time from the first to the last instant in any table, in whole windows."""
    found: list[int] = []
    for name, columns in (
        ("progress", ("window_start", "window_end")),
        ("members", ("joined", "joined")),
        ("rebalances", ("written_at", "written_at")),
        ("redeliveries", ("window_start", "window_end")),
    ):
        if name not in tables:
            continue
        first, last = columns
        row = tables[name].agg(f.unix_millis(f.min(first)), f.unix_millis(f.max(last))).collect()[0]
        found += [value for value in row if value is not None]
    if not found:
        return ReportExtent(0, step_ms, step_ms)
    start = min(found) // step_ms * step_ms
    return ReportExtent(start, max(-(-max(found) // step_ms) * step_ms, start + step_ms), step_ms)


def _group_rows(
    tables: Mapping[str, DataFrame], extent: ReportExtent, limits: ReportLimits
) -> tuple[list[GroupRow], int]:
    """Groups ranked by their findings, then by lag; and how many did not fit."""
    lag = (
        tables["progress"]
        .groupBy("group", "window_start")
        .agg(f.sum("lag").alias("lag"))
        .groupBy("group")
        .agg(
            f.max_by("lag", "window_start").alias("lag"),
            f.max("lag").alias("lag_max"),
        )
    )
    rebalances = tables["rebalances"].groupBy("group").agg(f.count("*").alias("rebalances"))
    health = tables["health"].select(
        "group", "rank", "severity", "findings", "summary", "protocol", "state", "members"
    )
    every = health.join(lag, "group", "full").join(rebalances, "group", "full")
    total = every.count()
    rank = f.coalesce("findings", f.lit(0)) > 0
    order = [
        f.when(rank, f.col("rank")).asc_nulls_last(),
        f.col("lag_max").desc_nulls_last(),
        f.col("group"),
    ]
    found = every.orderBy(*order).limit(limits.rows).collect()
    lags = _lag_of_groups(tables["progress"], [row.group for row in found])
    trends = _trends(lags, extent, ("group",), f.max("lag"))
    rows = [_group_row(row, trends) for row in found]
    return rows, total - len(rows)


def _group_row(row: Row, trends: Mapping[Any, Sequence[float | None]]) -> GroupRow:
    findings = row.findings or 0
    return GroupRow(
        row.group,
        row.severity if findings else None,
        findings,
        row.summary or "",
        row.protocol or "–",
        row.state or "Offsets",
        row.members or 0,
        row.rebalances or 0,
        row.lag,
        row.lag_max,
        trends.get((row.group,), ()),
    )


def _lag_of_groups(progress: DataFrame, groups: Sequence[str]) -> DataFrame:
    wanted = progress.where(f.col("group").isin(list(groups)) & f.col("lag").isNotNull())
    return wanted.groupBy("group", "window_start").agg(f.sum("lag").alias("lag"))


def _trends(
    windows: DataFrame,
    extent: ReportExtent,
    place: Sequence[str],
    value: Column,
    unknown: float | None = None,
) -> dict[Any, list[float | None]]:
    """The course of `value`, an aggregate of windows, in a few steps, by the columns `place`.
    `unknown`: stands where there is no window."""
    step = -(-extent.steps // _TREND_STEPS)
    at = ((f.unix_millis("window_start") - extent.start_ms) / (extent.step_ms * step)).cast("int")
    trends: dict[Any, list[float | None]] = {}
    for row in windows.groupBy(*place, at.alias("at")).agg(value.alias("value")).collect():
        values = trends.setdefault(_of(row, place), [unknown] * (-(-extent.steps // step)))
        if 0 <= row.at < len(values):
            values[row.at] = row.value
    return {key: downsample(values, _TREND_STEPS) for key, values in trends.items()}


def _of(row: Row, place: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in place)


def _findings(frame: DataFrame) -> list[ReportFinding]:
    """The worst findings."""
    order = f.when(f.col("severity") == "critical", 0).when(f.col("severity") == "warning", 1)
    rows = (
        frame.select(
            *[c for c in frame.columns if c not in ("first", "last")],
            millis("first"),
            millis("last"),
        )
        .orderBy(
            order.otherwise(2), f.col("score").desc(), "group", "finding", "topic", "partition"
        )
        .limit(FINDINGS_MAX)
        .collect()
    )
    return [_finding(row) for row in rows]


def _finding(row: Row) -> ReportFinding:
    evidence = decode(row.evidence or "{}")
    return ReportFinding(
        row.group,
        row.finding,
        row.severity if row.severity in _ORDER else "info",
        row.summary or "",
        row.topic,
        row.partition,
        row.member_id,
        row["first"],
        row["last"],
        str(evidence.get("table", "")),
        evidence.get("facts") or {},
    )


def _rewinds(frame: DataFrame) -> list[ReportFinding]:
    """Offsets that went back: not wrong as such, but worth knowing. The farthest ones, with one
    entry for all partitions that the same author moved back at the same time."""
    one = (
        frame.where(f.col("finding") == REWOUND)
        .groupBy("group", "from_time", f.coalesce("actor", f.lit("")).alias("actor"), "evidence")
        .agg(
            f.sum(-f.col("jump")).alias("records"),
            f.count("*").alias("partitions"),
            f.min("topic").alias("topic"),
            f.min("partition").alias("partition"),
        )
    )
    order = [f.col("records").desc(), f.col("group"), f.col("from_time")]
    rows = one.withColumn("at_ms", f.unix_millis("from_time")).orderBy(*order).limit(REWINDS_MAX)
    return [_rewind(row) for row in rows.collect()]


def _rewind(row: Row) -> ReportFinding:
    many = row.partitions > 1
    what = f"{row.partitions} partitions" if many else f"{row.topic}-{row.partition}"
    how = "reset without members" if row.evidence == "reset" else "moved back"
    return ReportFinding(
        row.group,
        REWOUND,
        "info",
        f"{what} {how} by {row.records:,} records in all",
        None if many else row.topic,
        None if many else row.partition,
        None,
        row.at_ms,
        row.at_ms,
        "progress",
        {"by": row.actor} if row.actor else {},
    )


def _with_rewinds(row: GroupRow, findings: Sequence[ReportFinding]) -> GroupRow:
    mine = sum(one.group == row.name and one.kind == REWOUND for one in findings)
    if not mine:
        return row
    return replace(row, findings=row.findings + mine, severity=row.severity or "info")


# Share groups -------------------------------------------------------------------------------


def _shares(tables: Mapping[str, DataFrame], extent: ReportExtent) -> SharePart:
    """The share-partitions with most redeliveries, and the records that were delivered most
    often."""
    windows, records = (
        tables[name].withColumn("topic", f.coalesce("topic", "topic_id")) for name in SHARE_TABLES
    )
    still = f.greatest(extent.end_ms - f.unix_millis(f.max("moved_at")), f.lit(0))
    every = windows.groupBy(*PLACE).agg(
        f.first("topic").alias("topic"),
        *(f.sum(name).alias(name) for name in (*ANSWERS, "redelivered")),
        f.coalesce(f.max("most_deliveries"), f.lit(0)).alias("most_deliveries"),
        *(f.max_by(name, "window_start").alias(name) for name in ("start_offset", "lag")),
        still.alias("still_ms"),
    )
    most = [f.col(name).desc() for name in ("redelivered", "archived")]
    found = every.orderBy(*most, *PLACE).limit(SHARE_ROWS_MAX).collect()
    again = windows.where(
        (f.col("redelivered") > 0) & f.col("group").isin(sorted({row.group for row in found}))
    )
    trends = _trends(again, extent, PLACE, f.sum("redelivered"), 0.0)
    rows = [{**row.asDict(), "trend": trends.get(_of(row, PLACE), ())} for row in found]
    # At most ten ranges of a share-partition, so that one of them does not fill the list.
    order = Window.partitionBy(*PLACE).orderBy("rank")
    few = records.withColumn("_rank", f.row_number().over(order)).where(f.col("_rank") <= 10)
    often = [f.col(name).desc() for name in ("deliveries", "releases")]
    ranges = few.orderBy(*often, *PLACE, "first_offset").limit(SHARE_RANGES_MAX)
    ranges = ranges.withColumn("last_ms", f.unix_millis("last_time"))
    return SharePart(
        convert(rows, list[ShareRow]),
        every.count() - len(found),
        convert([row.asDict() for row in ranges.collect()], list[ShareRange]),
    )
