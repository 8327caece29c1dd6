"""Runs one job from its input to its tables, for the command and for scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Struct
from pyspark.sql import SparkSession

from groupd.pipeline.inputs import QUARANTINE, Origin, read_inputs, read_quarantine
from groupd.pipeline.job import Job, Table
from groupd.pipeline.sink import check_format, span_of, write_table

WatchJob = Callable[[str], AbstractContextManager[None]]


class Summary(Struct, frozen=True):
    """What a run has written. `rows`: by table, the number of rows of the days that the run covers.
    `quarantined`: None if quarantine was not looked at."""

    rows: dict[str, int]
    quarantined: int | None
    seconds: float


def run_job(
    spark: SparkSession,
    job: Job,
    origin: Origin,
    out: str,
    options: Mapping[str, Any] | None = None,
    *,
    kind: str = "parquet",
    with_quarantine: bool = True,
    counted: bool = True,
    watch: WatchJob = lambda _: nullcontext(),
) -> Summary:
    """Writes the job's tables, and the quarantine, below `out`. `options`: all of the job's
    options; its defaults if not given. `counted`: fills `rows`, which takes one more query for each
    table. `watch`: wraps each step. Raises PipelineError."""
    started = time.monotonic()
    check_format(spark, kind)
    options = dict(job.options) if options is None else options
    out = out.rstrip("/")
    span = span_of(origin.wanted.from_us, origin.wanted.until_us)
    with watch("planning"):
        inputs = read_inputs(spark, origin, job.columns, job.ends_step(options), job.log)
        tables = job.build(inputs, options)
    rows = {}
    for name, table in tables.items():
        with watch(name):
            count = write_table(spark, table, f"{out}/{name}", kind, span)
            if counted:
                rows[name] = count()
    quarantined = None
    if with_quarantine:
        with watch(QUARANTINE):
            path = f"{out}/{QUARANTINE}"
            bad = read_quarantine(spark, origin, job.log)
            held = Table(bad, "timestamp", ("log_partition", "log_offset"), optional=True)
            quarantined = write_table(spark, held, path, kind, span)()
    return Summary(rows, quarantined, time.monotonic() - started)
