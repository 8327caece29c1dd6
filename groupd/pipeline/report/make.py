"""Runs the jobs that a report needs, and writes the page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.group_pass import COLUMNS
from groupd.pipeline.inputs import (
    Origin,
    read_end_offsets,
    read_entries,
    read_topics,
)
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs import health, members, rebalances
from groupd.pipeline.logs import OFFSETS, SHARE_STATE
from groupd.pipeline.registry import job_named
from groupd.pipeline.report.collect import SHARE_TABLES, TABLES, collect_report
from groupd.pipeline.report.model import DEFAULT_LIMITS, ReportLimits
from groupd.pipeline.report.page import render
from groupd.pipeline.run import WatchJob, run_job

# The jobs `members`, `rebalances` and `health` each follow every group along the log. The report
# needs all three, so here the log is read once for all of them. With the default options the tables
# are the same as those of the jobs.


def build_groups(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    """The tables of all three jobs. Raises PipelineError."""
    wanted = members.TABLES | rebalances.TABLES | health.TABLES
    frames = health.checked_pass(inputs, options, wanted)
    return members.tables(frames) | rebalances.tables(frames) | health.tables(frames)


GROUPS_JOB = Job(
    "members, rebalances and health",
    "all that following the groups tells, in one pass",
    build_groups,
    health.JOB.options,
    COLUMNS,
)


JOBS = (job_named("progress"), GROUPS_JOB)
SHARE_JOB = job_named("redeliveries")
"""Runs if the log has share groups."""

_STEPS_MAX = 300
_NICE_MS = tuple(
    minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
)


def window_ms(span_ms: int) -> int:
    """The window of `progress`: divides the time into at most `_STEPS_MAX` steps of a round
    length."""
    for step in _NICE_MS:
        if span_ms <= step * _STEPS_MAX:
            return step
    return -(-span_ms // (_NICE_MS[-1] * _STEPS_MAX)) * _NICE_MS[-1]


def make_report(
    spark: SparkSession,
    origin: Origin,
    out: Path,
    *,
    work: Path | None = None,
    limits: ReportLimits = DEFAULT_LIMITS,
    title: str | None = None,
    watch: WatchJob = lambda _: nullcontext(),
) -> int:
    """Writes the page to `out` and returns its size in bytes. `work`: where the tables of the jobs
    are kept, None to keep none. Raises PipelineError."""
    where = source_name(origin)
    with _directory(work) as directory:
        origin, step_ms = _prepared(spark, origin, directory, watch)
        jobs = [*JOBS, SHARE_JOB] if _has_shares(spark, origin) else JOBS
        for job in jobs:
            options: dict[str, Any] = dict(job.options)
            if "window" in options:
                options["window"] = f"{step_ms // 1000}s"
            _run(spark, job, origin, directory, options, watch)
        with watch("the page"):
            names = [*TABLES, *(SHARE_TABLES if SHARE_JOB in jobs else ())]
            tables = read_tables(spark, directory, names)
            report = collect_report(tables, title or where, step_ms, limits)
            page = render(report).encode("utf-8")
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(page)
    return len(page)


def _has_shares(spark: SparkSession, origin: Origin) -> bool:
    """Whether the log says anything of share groups."""
    return not read_entries(spark, origin, ("log_offset",), SHARE_STATE).isEmpty()


def read_tables(
    spark: SparkSession, directory: Path, names: Iterable[str] = TABLES
) -> Mapping[str, DataFrame]:
    return {name: spark.read.parquet(str(directory / name)) for name in names}


def source_name(origin: Origin) -> str:
    """Where the log is, without the parts of a URL that may be secret."""
    text = origin.store or origin.kafka or origin.segments or origin.lake or ""
    if "@" in text:
        scheme, _, rest = text.partition("://")
        text = f"{scheme}://{rest.rpartition('@')[2]}"
    return text


@contextmanager
def _directory(work: Path | None) -> Iterator[Path]:
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        yield work
        return
    with tempfile.TemporaryDirectory(prefix="groupd-report-") as directory:
        yield Path(directory)


def _prepared(
    spark: SparkSession, origin: Origin, directory: Path, watch: WatchJob
) -> tuple[Origin, int]:
    """Returns the log as a table that is decoded once, together with what the source knows besides,
    and the window of the report."""
    if origin.lake is None:
        for log in (OFFSETS, SHARE_STATE):
            _run(spark, job_named(log.table), origin, directory, {}, watch)
    lake = origin.lake or str(directory)
    with watch("looking at the log"):
        step_ms = window_ms(
            _span_ms(spark, replace(origin, store=None, kafka=None, segments=None, lake=lake))
        )
        topics, ends = origin.topics_file, origin.end_offsets_file
        if topics is None:
            topics = str(directory / "topics")
            read_topics(spark, origin).coalesce(1).write.mode("overwrite").parquet(topics)
        if ends is None:
            ends = str(directory / "end-offsets")
            step = timedelta(milliseconds=step_ms)
            read_end_offsets(spark, origin, step).coalesce(1).write.mode("overwrite").parquet(ends)
    prepared = Origin(lake=lake, topics_file=topics, end_offsets_file=ends, wanted=origin.wanted)
    return prepared, step_ms


def _run(
    spark: SparkSession,
    job: Job,
    origin: Origin,
    directory: Path,
    options: Mapping[str, Any],
    watch: WatchJob,
) -> None:
    run_job(
        spark,
        job,
        origin,
        str(directory),
        options,
        with_quarantine=False,
        counted=False,
        watch=lambda what: watch(job.name if what == job.name else f"{job.name}: {what}"),
    )
    spark.catalog.clearCache()


def _span_ms(spark: SparkSession, origin: Origin) -> int:
    times = read_entries(spark, origin, ("timestamp",))
    row = times.agg(
        f.unix_millis(f.min("timestamp")).alias("first"),
        f.unix_millis(f.max("timestamp")).alias("last"),
    ).collect()[0]
    if row["first"] is None:
        raise PipelineError("the log has no records in this time")
    return max(1, int(row["last"]) - int(row["first"]))
