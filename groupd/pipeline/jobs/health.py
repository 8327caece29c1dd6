"""Ranks groups by what is wrong with them, with the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from groupd.pipeline.fold.checkup import NamedPlace
from groupd.pipeline.fold.entry import FoldFacts, FoldObserver
from groupd.pipeline.fold.findings import SEVERITIES, Thresholds, read_thresholds
from groupd.pipeline.fold.health import HealthFold
from groupd.pipeline.fold.state import Settings, TopicNames
from groupd.pipeline.group_pass import COLUMNS, Observers, group_pass
from groupd.pipeline.group_tables import FINDINGS, GROUP_STATES, HEALTH
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs.offsets import as_of
from groupd.pipeline.options import parse_time

_FINE = "nothing found"

TABLES = {"findings": FINDINGS, "group_states": GROUP_STATES}


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    """Raises PipelineError if the thresholds file cannot be read."""
    return tables(checked_pass(inputs, options, TABLES))


def checked_pass(
    inputs: Inputs, options: Mapping[str, Any], wanted: Mapping[str, StructType]
) -> dict[str, DataFrame]:
    """The tables `wanted` of a pass that also looks for findings, with the options of this job.
    Raises PipelineError."""
    limits = read_thresholds(str(options["config"]))
    if options["at"]:
        at_us = parse_time(str(options["at"]))
        inputs = Inputs(as_of(inputs.entries, at_us), inputs.topics, inputs.end_offsets)
        now_ms = at_us // 1000
    else:
        now_ms = _end_ms(inputs.entries)
    observers = _observers(limits, _end_offsets(inputs.end_offsets, now_ms), now_ms)
    settings = Settings(
        limits.session_timeout_ms,
        limits.flapping_life_ms,
        limits.flapping_count,
        limits.flapping_window_ms,
    )
    return group_pass(inputs, wanted, settings, observers)


def tables(frames: Mapping[str, DataFrame]) -> dict[str, Table]:
    """The job's tables, out of a pass that gave `TABLES`."""
    return {
        "health": Table(_ranked(frames["group_states"], frames["findings"]), None, ("group",)),
        "findings": Table(
            frames["findings"],
            None,
            ("group", "finding", "topic", "partition", "member_id", "first", "summary"),
        ),
    }


def _observers(limits: Thresholds, ends: Mapping[NamedPlace, int], now_ms: int) -> Observers:
    def make(facts: FoldFacts, topics: TopicNames) -> Sequence[FoldObserver]:
        return [HealthFold(facts, topics, limits, ends, now_ms)]

    return make


def _end_ms(entries: DataFrame) -> int:
    """When the log ends: the newest timestamp in any of its partitions."""
    row = entries.agg(f.max(f.unix_millis("timestamp")).alias("at_ms")).first()
    return 0 if row is None or row.at_ms is None else int(row.at_ms)


def _end_offsets(table: DataFrame, now_ms: int) -> dict[NamedPlace, int]:
    """The last known end offsets at `now_ms`, collected on the driver: one number for each
    partition."""
    known = f.coalesce(f.unix_millis("time"), f.lit(0))
    rows = (
        table.where(known <= now_ms)
        .groupBy("topic", "partition")
        .agg(f.max_by("end_offset", known).alias("end_offset"))
    )
    return {(row.topic, row.partition): row.end_offset for row in rows.collect()}


def _ranked(states: DataFrame, findings: DataFrame) -> DataFrame:
    """One row for each group; those with nothing wrong come last."""
    weight = f.create_map(*(f.lit(one) for pair in SEVERITIES.items() for one in pair))
    sums = findings.groupBy("group").agg(
        f.sum("score").alias("score"),
        f.max_by("severity", weight[f.col("severity")]).alias("severity"),
        f.count("*").alias("findings"),
        f.sort_array(f.collect_set("finding")).alias("kinds"),
        f.max_by("summary", f.struct("score", "summary")).alias("summary"),
    )
    # A group is in one partition of the log; if the log has copies under other numbers, it counts
    # once.
    newest = states.groupBy("group").agg(f.max_by(f.struct("*"), "last_activity").alias("state"))
    rows = newest.select("state.*").join(sums, "group", "left")
    rank = f.row_number().over(Window.orderBy(f.desc("score"), "group"))
    rows = rows.withColumns(
        {
            "score": f.round(f.coalesce("score", f.lit(0.0)), 2),
            "severity": f.coalesce("severity", f.lit("ok")),
            "findings": f.coalesce("findings", f.lit(0)),
            "kinds": f.coalesce("kinds", f.array().cast("array<string>")),
            "summary": f.coalesce("summary", f.lit(_FINE)),
        }
    ).withColumn("rank", rank)
    return rows.select(*(f.col(one.name).cast(one.dataType) for one in HEALTH.fields))


JOB = Job(
    "health",
    "groups ranked by findings: storms, stuck partitions, skew, zombies, expiry, conflicts",
    build,
    {"config": "", "at": ""},
    COLUMNS,
)
