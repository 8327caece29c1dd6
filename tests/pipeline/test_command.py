"""`groupd-pipeline`: usage, one run in a process of its own, and what a run reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from groupd.pipeline.cli import main
from groupd.pipeline.decode import COLUMNS
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.inputs import Origin, read_inputs
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.registry import all_jobs, job_options
from groupd.pipeline.run import run_job
from tests.support.daemon import ROOT
from tests.support.pipeline_logs import LOGS, ROWS, TOPICS, fill_store, write_segments
from tests.unit.logtools.harness import HOME, batch, commit


@pytest.fixture
def store(tmp_path: Path) -> str:
    url = f"sqlite+aiosqlite:///{tmp_path}/groupd.sqlite"
    fill_store(url)
    return url


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "there is no job nothing: there are"),
        (["entries"], "say where the tables go: --out DIR"),
        (["entries", "--out", "o"], "say where the log is: one of --store"),
        (
            ["entries", "--out", "o", "--store", "a", "--lake", "b"],
            "say where the log is: one of --store",
        ),
        (["entries", "--out", "o", "--store", "/nowhere"], "there is no such store"),
        (["entries", "--out", "o", "--set", "x=1"], "job entries has no such option"),
        (["entries", "--out", "o", "--set", "x"], "must be NAME=VALUE"),
        (["entries", "--out", "o", "--format", "orc"], "must be one of parquet, delta, iceberg"),
        (["entries", "--out", "o", "--store", "a", "--from", "soon"], "soon is not a time"),
        (["entries", "--out", "o", "--lake", "o"], "--out and --lake are one directory"),
        (["entries", "--wrong"], "No such option"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.startswith("groupd-pipeline: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_without_java_it_says_so_in_one_line(store: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "groupd.pipeline", "entries", "--store", store, "--out", "o"]
    env = {**os.environ, "JAVA_HOME": str(tmp_path / "no-java")}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "install Java 17 or newer" in done.stderr
    assert done.stderr.count("\n") == 1


def test_jobs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["jobs"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("entries ") for line in lines)
    assert all(job.name == name for name, job in all_jobs().items())


def test_options_have_the_types_of_their_defaults() -> None:
    job = Job("j", "", lambda *_: {}, {"count": 1, "share": 0.5, "deep": False, "name": "x"})
    given = job_options(job, ["count=2", "share=0.25", "deep=yes", "name=a=b"])
    assert given == {"count": 2, "share": 0.25, "deep": True, "name": "a=b"}
    for wrong in ("count=x", "share=x", "deep=x"):
        with pytest.raises(PipelineError, match="must be"):
            job_options(job, [wrong])


@pytest.mark.timeout(300)
def test_a_run_from_the_shell(store: str, tmp_path: Path) -> None:
    """It prints what a user sees: the tables, a summary, nothing else."""
    command = [sys.executable, "-m", "groupd.pipeline", "entries", "--store", store]
    command += ["--out", str(tmp_path / "out"), "--master", "local[1]", "--driver-memory", "1g"]
    # A process that lives for seconds is compiled for nothing.
    command += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["entries", str(ROWS), "rows"]
    assert lines[1].split() == ["quarantine", "0", "rows"]
    assert lines[2].endswith(" s")
    assert done.stderr == ""
    assert len(list((tmp_path / "out" / "entries").glob("day=*"))) == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["entries"]


def commits(inputs: Inputs, options: Any) -> dict[str, Table]:
    frame = inputs.entries.where(F.col("record_type_id") == 1)
    frame = frame.select("timestamp", "group", "topic", F.col("offset_commit.offset"))
    return {"few": Table(frame, "timestamp", ("group",))}


def test_a_job_goes_on_without_what_is_damaged(spark: SparkSession, tmp_path: Path) -> None:
    broken = bytearray(batch(12, commit(3)))
    broken[-3] ^= 1
    origin = Origin(
        segments=str(write_segments(tmp_path, {**LOGS, HOME: [*LOGS[HOME], bytes(broken)]}))
    )
    out = str(tmp_path / "out")
    summary = run_job(spark, Job("few", "", commits), origin, out)
    assert (summary.rows, summary.quarantined) == ({"few": 27}, 1)
    (row,) = spark.read.parquet(f"{out}/quarantine").collect()
    assert (row.log_partition, row.log_offset) == (HOME, 12)
    assert TOPICS[0].name in [one.topic for one in spark.read.parquet(f"{out}/few").collect()]


def test_a_job_has_only_the_columns_decoded_that_it_names(spark: SparkSession, store: str) -> None:
    used = ("timestamp", "group", "topic", "offset_commit", "record_type_id")
    inputs = read_inputs(spark, Origin(store=store), used)
    assert inputs.entries.schema.names == list(COLUMNS)
    assert "groupd[timestamp#" in inputs.entries._jdf.queryExecution().toString()
    row = inputs.entries.where("`group` = 'g0' AND offset_commit.offset = 1").first()
    assert row is not None
    assert (row.log_offset, row.offset_commit.offset) == (None, 1)
