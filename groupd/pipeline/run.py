"""Runs one job from its input to its tables, for the command and for scripts.

Spark's plans tell which columns of the log a job uses; the others are not decoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Struct
from msgspec.json import decode
from pyspark.sql import DataFrame, SparkSession

from groupd.pipeline.decode import COLUMNS
from groupd.pipeline.inputs import QUARANTINE, Origin, read_good, read_inputs
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.sink import check_format, span_of, write_table

# Spark tells a Python data source nothing about columns, but its optimizer knows them. So a job is
# first built over all columns without being run; its plans say which columns it needs, and then it
# is built again with only those.

_SOURCES = ("DataSourceV2ScanRelation", "DataSourceV2Relation", "MapInArrow")
_OPAQUE = ("InMemoryRelation", "LogicalRDD")
"""Plan nodes of cached results. They do not show from which columns the results were made."""


def used_columns(frames: Iterable[DataFrame]) -> tuple[str, ...]:
    """The columns that the frames use, in the order of the schema; all of them if a plan cannot
    tell."""
    used: set[str] = set()
    for frame in frames:
        plan: Any = frame._jdf.queryExecution().optimizedPlan()
        nodes = decode(plan.toJSON())
        names: dict[int, str] = {}
        wanted = {attribute.exprId().id() for attribute in _items(plan.output())}
        for node in nodes:
            kind = node["class"].rpartition(".")[2]
            if kind in _OPAQUE:
                return COLUMNS
            if kind in _SOURCES:
                names |= dict(_attributes(node.get("output", ())))
            else:
                wanted |= {number for number, _ in _attributes(node)}
        used |= {names[number] for number in wanted if number in names}
    return tuple(name for name in COLUMNS if name in used)


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    for index in range(sequence.length()):
        yield sequence.apply(index)


def _attributes(tree: Any) -> Iterator[tuple[int, str]]:
    """Id and name of each attribute in a part of a plan given as JSON."""
    if isinstance(tree, dict):
        if tree.get("class", "").endswith(".AttributeReference"):
            yield tree["exprId"]["id"], tree["name"]
        for value in tree.values():
            yield from _attributes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _attributes(value)


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
        tables, bad = _tables(spark, job, origin, options)
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
            quarantined = write_table(spark, bad, path, kind, span)()
    return Summary(rows, quarantined, time.monotonic() - started)


def _tables(
    spark: SparkSession, job: Job, origin: Origin, options: Mapping[str, Any]
) -> tuple[dict[str, Table], Table]:
    """Builds the tables and the quarantine. A job that does not declare its columns is built twice:
    over all of them to see which are used, and again with only those decoded. Parquet skips unused
    columns by itself."""
    inputs, bad = read_inputs(spark, origin, job.ends_step(options))
    quarantined = Table(bad, "timestamp", ("log_partition", "log_offset"), optional=True)
    used = COLUMNS if origin.lake is not None else job.columns
    if not used:
        used = used_columns(table.frame for table in job.build(inputs, options).values())
    if used != COLUMNS:
        pruned = read_good(spark, origin, used)
        inputs = Inputs(pruned, inputs.topics, inputs.end_offsets)
    return job.build(inputs, options), quarantined
