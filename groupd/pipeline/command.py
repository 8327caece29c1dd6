"""Carries out a `groupd-pipeline` command line once its options are parsed.

While a job runs, one line of the terminal shows the stages and tasks of Spark.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from groupd.pipeline.errors import JobFailed, PipelineError
from groupd.pipeline.inputs import QUARANTINE, Origin
from groupd.pipeline.options import parse_time
from groupd.pipeline.registry import all_jobs, job_named, job_options
from groupd.pipeline.row_filter import RowFilter
from groupd.pipeline.run import Summary, run_job
from groupd.pipeline.session import java_version, small_log_settings, spark_session, submitted
from groupd.pipeline.sink import FORMATS

_INTERVAL_S = 0.3


def running(spark: SparkSession) -> tuple[int, int, int]:
    """The number of running stages, how many of their tasks are done, and how many tasks they
    have."""
    tracker = spark.sparkContext.statusTracker()
    stages = done = total = 0
    for number in tracker.getActiveStageIds():
        info = tracker.getStageInfo(number)
        if info is not None:
            stages += 1
            done += info.numCompletedTasks
            total += info.numTasks
    return stages, done, total


@contextmanager
def shown(spark: SparkSession, console: Console, what: str) -> Iterator[None]:
    """Shows the progress while the body runs, if the output is a terminal."""
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(what, total=None)

        def follow() -> None:
            while not ended.wait(_INTERVAL_S):
                stages, done, total = running(spark)
                if stages:
                    said = f"{what}: {stages} stage{'s' if stages > 1 else ''}"
                    progress.update(bar, description=said, completed=done, total=total)

        thread = threading.Thread(target=follow, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


_REFUSED = re.compile(r"pipeline\.errors\.PipelineError: (.+)")
"""Finds the error of the data source itself in a message of Spark."""


class JobRequest(Struct, frozen=True):
    """The options of the command line, unchanged."""

    job: str
    out: str | None = None
    store: str | None = None
    kafka: str | None = None
    segments: str | None = None
    lake: str | None = None
    topics: str | None = None
    end_offsets: str | None = None
    kafka_options: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    from_time: str | None = None
    until_time: str | None = None
    settings: tuple[str, ...] = ()
    kind: str = "parquet"
    with_quarantine: bool = True
    master: str | None = None
    driver_memory: str = "2g"
    packages: str | None = None
    jars: str | None = None
    conf: tuple[str, ...] = ()

    def origin(self) -> Origin:
        """The place of the log that the options give. Raises PipelineError."""
        wanted = RowFilter(
            groups=frozenset(self.groups) if self.groups else None,
            from_us=None if self.from_time is None else parse_time(self.from_time),
            until_us=None if self.until_time is None else parse_time(self.until_time),
            rest=True,
        )
        origin = Origin(
            self.store,
            self.kafka,
            self.segments,
            self.lake,
            self.topics,
            self.end_offsets,
            wanted,
            _pairs("--kafka-option", self.kafka_options),
        )
        origin.check()
        return origin


def _pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise PipelineError(f"{option} {text}: must be NAME=VALUE")
        found[name] = value
    return found


def list_jobs() -> None:
    jobs = all_jobs()
    width = max(map(len, jobs), default=0)
    for job in jobs.values():
        print(f"{job.name:{width}}  {job.summary}")
        for name, default in job.options.items():
            print(f"{'':{width}}    --set {name}={default}")


def run_request(request: JobRequest, console: Console) -> None:
    """Runs the job and prints its summary. Raises PipelineError for wrong options and JobFailed for
    what fails later."""
    job = job_named(request.job)
    options = job_options(job, request.settings)
    if request.out is None:
        raise PipelineError("say where the tables go: --out DIR")
    if request.kind not in FORMATS:
        raise PipelineError(f"--format {request.kind}: must be one of {', '.join(FORMATS)}")
    origin = request.origin()
    if request.lake is not None and Path(request.lake) in (
        Path(request.out),
        Path(request.out) / "entries",
    ):
        raise PipelineError(
            "--out and --lake are one directory: a table that is read cannot be replaced"
        )
    if not submitted():
        java_version()
    with running_spark(request, origin, console) as spark:
        summary = run_job(
            spark,
            job,
            origin,
            request.out,
            options,
            kind=request.kind,
            with_quarantine=request.with_quarantine,
            watch=lambda what: shown(spark, console, what),
        )
        _print_summary(summary, request.out)


@contextmanager
def running_spark(request: JobRequest, origin: Origin, console: Console) -> Iterator[SparkSession]:
    """Gives a Spark session for one job. Java and the Python workers inherit stderr when they
    start, so it points to a file meanwhile. The file is named in the error if something fails, else
    deleted."""
    settings = small_log_settings(origin) | _pairs("--conf", request.conf)
    for name, value in (("packages", request.packages), ("", request.jars)):
        if value is not None:
            settings["spark.jars" + (f".{name}" if name else "")] = value
    number, log = tempfile.mkstemp(prefix="groupd-pipeline-", suffix=".log")
    try:
        with console.status("starting Spark"), _stderr_into(number):
            spark = spark_session(
                f"groupd-pipeline {request.job}",
                master=request.master,
                driver_memory=request.driver_memory,
                settings=settings,
            )
    except Exception as error:
        raise JobFailed(f"Spark does not start: {_first_line(error)} (see {log})") from error
    finally:
        os.close(number)
    keep = False
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        refused = _REFUSED.search(str(error))
        if refused is not None:
            raise PipelineError(refused[1]) from error
        keep = True
        raise JobFailed(f"job {request.job}: {_first_line(error)} (see {log})") from error
    finally:
        if not submitted():
            spark.stop()
        if not keep:
            os.unlink(log)


@contextmanager
def _stderr_into(number: int) -> Iterator[None]:
    if submitted():
        yield
        return
    terminal = os.dup(2)
    sys.stderr.flush()
    os.dup2(number, 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _print_summary(summary: Summary, out: str) -> None:
    width = max(map(len, (*summary.rows, QUARANTINE)))
    for name, count in summary.rows.items():
        print(f"{name:{width}}  {count:>12,} rows  {out.rstrip('/')}/{name}")
    if summary.quarantined is not None:
        where = f"  {out.rstrip('/')}/{QUARANTINE}" if summary.quarantined else ""
        print(f"{QUARANTINE:{width}}  {summary.quarantined:>12,} rows{where}")
    print(f"{summary.seconds:.1f} s")
