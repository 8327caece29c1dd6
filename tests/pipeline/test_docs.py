"""The pages about the pipeline: each snippet runs, prints what the page shows, and fits a terminal.

All of it over the demo log, which is the same always; how long something takes is not compared.
"""

from __future__ import annotations

import asyncio
import io
import re
import shlex
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from groupd.pipeline.fold.findings import Thresholds, read_thresholds
from groupd.pipeline.generator.command import Options, generate, plan_world
from groupd.pipeline.generator.sinks import SegmentSink
from tests.support.doc_snippets import Snippet, snippets, widest
from tests.support.generated_shares import share_logs
from tests.support.pipeline_command import groupd_pipeline
from tests.unit.logtools.share_logs import write_state

pytestmark = pytest.mark.timeout(900)

COLUMNS = 120
PAGES = ("pipeline.md", "pipeline-jobs.md", "pipeline-report.md")
ELSEWHERE = {
    "pip install": "installs a release",
    "make bench-pipeline": "tests/packaging/test_make_targets.py starts it",
    "--format delta": "downloads a package",
    "SPARK_HOME": "tests/bench/pipeline/cluster.py runs these commands",
    "spark-submit": "tests/bench/pipeline/cluster.py runs it",
    "broker:9092": "tests/pipeline/test_kafka.py runs it against a broker",
    "groupd-pipeline report": "tests/pipeline/test_report.py runs it",
    "--records 1000000": "tests/pipeline/test_generator.py generates logs of any size",
}
"""Commands that do not run here, by a part of them, and why."""

_TIMES = re.compile(r"\d+\.\d s\b|[\d,]+ a second")


def in_scratch(code: str, scratch: Path) -> str:
    """The code with absolute paths: relative ones are Java's, whose directory cannot be changed."""
    return re.sub(r"(?<=[\s\"'])\./", f"{scratch}/", code)


def printed(spark: SparkSession, snippet: Snippet, scratch: Path, names: dict[str, Any]) -> str:
    """What the snippet prints, as the page has it."""
    code = in_scratch(snippet.code, scratch)
    if snippet.language == "python":
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, f"{snippet.page}:{snippet.line}", "exec"), names)
        text = out.getvalue()
    else:
        program, *arguments = shlex.split(code, comments=True)
        assert program == "groupd-pipeline", f"{snippet.page}:{snippet.line} runs {program}"
        text = groupd_pipeline(spark, arguments)
    return text.replace(f"{scratch}/", "./")


def comparable(output: str) -> str:
    lines = [_TIMES.sub("N", line.rstrip()) for line in output.splitlines()]
    return "\n".join(line for line in lines if line)


def write_share_log(directory: Path) -> None:
    """The log of share groups that the pages read."""
    world, plans = plan_world(Options(records=5000, groups=10, days=1))
    asyncio.run(generate(world, plans, SegmentSink(directory)))
    for partition, payloads in share_logs(world, 3).items():
        write_state(directory, partition, *payloads)


@pytest.mark.parametrize(
    "pages", [PAGES[:1], pytest.param(PAGES, marks=pytest.mark.nightly)], ids=["first", "all"]
)
def test_snippets_print_what_the_pages_show(
    spark: SparkSession, tmp_path: Path, pages: Sequence[str]
) -> None:
    """All pages in one: what one writes the next one reads."""
    write_share_log(tmp_path / "share-log")
    wrong, names = [], {"__name__": "snippet"}
    for snippet in (one for page in pages for one in snippets(page)):
        if snippet.language not in ("console", "python"):
            continue
        if snippet.language == "console" and any(part in snippet.code for part in ELSEWHERE):
            continue
        found = comparable(printed(spark, snippet, tmp_path, names))
        if found != comparable(snippet.output):
            wrong.append(f"{snippet.page}:{snippet.line} {snippet.code}\nprints\n{found}")
    assert wrong == [], "\n\n".join(wrong)


def test_the_config_of_the_page_is_one(tmp_path: Path) -> None:
    (toml,) = [one for one in snippets("pipeline-jobs.md") if one.language == "toml"]
    path = tmp_path / "health.toml"
    path.write_text(toml.code)
    assert read_thresholds(str(path)) != Thresholds()


@pytest.mark.parametrize("page", PAGES)
def test_snippets_fit_a_terminal_and_are_of_a_kind_that_is_tested(page: str) -> None:
    assert widest(page) <= COLUMNS
    assert {one.language for one in snippets(page)} <= {"console", "python", "toml", "text"}
