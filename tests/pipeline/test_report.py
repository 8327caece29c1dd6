"""The report from a log to its page: what it shows is what the tables of the jobs say."""

from __future__ import annotations

import asyncio
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.generator.command import UNTIL_MS, generate
from groupd.pipeline.generator.profiles import HOUR_MS, SESSION_MS
from groupd.pipeline.generator.script import (
    Act,
    GeneratedPartition,
    GeneratedTopic,
    GeneratedWorld,
    GroupPlan,
    Kind,
    Op,
)
from groupd.pipeline.generator.sinks import SegmentSink, StoreSink
from groupd.pipeline.inputs import Origin
from groupd.pipeline.registry import job_named
from groupd.pipeline.report.make import make_report, window_ms
from groupd.pipeline.report.model import ReportLimits
from groupd.pipeline.report.share_section import SECTION
from groupd.pipeline.run import run_job
from groupd.storage.open import create_store
from tests.support.doc_snippets import snippets
from tests.support.generated_shares import share_logs
from tests.support.pipeline_command import groupd_pipeline
from tests.support.report_page import HOSTILE, Page
from tests.unit.logtools.share_logs import fill_state, write_state

pytestmark = pytest.mark.timeout(600)

START_MS = UNTIL_MS - 2 * HOUR_MS
TOPIC = GeneratedTopic("orders", bytes(range(16)), (10.0,) * 4, (1000,) * 4, 0.0, 0.0)
WORLD = GeneratedWorld([TOPIC], START_MS, UNTIL_MS, 4, 7, 121)
PLACES = tuple(GeneratedPartition(0, partition) for partition in range(4))


def joins(members: int) -> tuple[Op, ...]:
    return tuple(Op(START_MS + 1000 * number, Act.JOIN, number) for number in range(members))


CRASH_MS = START_MS + HOUR_MS
CRASHED = (
    *joins(2),
    Op(CRASH_MS, Act.MUTE, 1),
    Op(CRASH_MS + SESSION_MS, Act.FENCE, 1),
)
STUCK = (*joins(1), Op(START_MS + HOUR_MS // 2, Act.STICK, places=(2,)))
PLANS = [
    GroupPlan("crashed", Kind.CONSUMER, PLACES, CRASHED, 3000),
    GroupPlan(HOSTILE, Kind.CLASSIC, PLACES, joins(2), 900),
    GroupPlan("stuck", Kind.CONSUMER, PLACES, STUCK, 900),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same log as a store and as segments."""
    at = tmp_path_factory.mktemp("report")

    async def fill() -> None:
        await generate(WORLD, PLANS, SegmentSink(at / "segments"))
        store = create_store(None, at)
        await store.start()
        await generate(WORLD, PLANS, StoreSink(store))
        await store.close()
        for partition, payloads in share_logs(WORLD, 1).items():
            write_state(at / "segments", partition, *payloads)
            await fill_state(at, partition, *payloads)

    asyncio.run(fill())
    return at


@pytest.fixture(scope="module")
def page(spark: SparkSession, directory: Path) -> Page:
    """The page that the command of the documentation makes."""
    out = directory / "report.html"
    (snippet,) = [
        one for one in snippets("pipeline-report.md") if one.code.startswith("groupd-pipeline rep")
    ]
    code = snippet.code.replace("./groupd-data", str(directory)).replace("report.html", str(out))
    more = ["--tables", str(directory / "tables"), "--title", "a log"]
    said = groupd_pipeline(spark, [*shlex.split(code)[1:], *more])
    assert said.startswith(f"{out}: {out.stat().st_size / 1024:,.0f} KiB, in ")
    return Page(out.read_text(encoding="utf-8"))


def section_of(page: Page, group: str) -> str:
    (found,) = [a["id"] for a in page.all("section") if a.get("data-name") == group]
    assert found is not None
    return found


def test_it_shows_every_group_and_the_whole_time(page: Page) -> None:
    names = {a.get("data-name") for a in page.all("section")} - {None}
    assert names == {plan.name for plan in PLANS}
    known = page.json["report-data"]
    assert known["start"] <= START_MS + 1000
    assert known["end"] >= UNTIL_MS - 1000
    assert "3 groups" not in page.text  # figures and labels are apart
    assert page.unclosed == []


def test_one_pass_leaves_the_tables_that_the_jobs_leave(
    spark: SparkSession, directory: Path, page: Page
) -> None:
    work, alone = directory / "tables", directory / "alone"
    origin = Origin(
        lake=str(work),
        topics_file=str(work / "topics"),
        end_offsets_file=str(work / "end-offsets"),
    )
    for name in ("members", "rebalances", "health"):
        found = run_job(spark, job_named(name), origin, str(alone), with_quarantine=False)
        for table, count in found.rows.items():
            mine, theirs = (
                sorted(map(str, spark.read.parquet(str(at / table)).collect()))
                for at in (work, alone)
            )
            assert mine == theirs
            assert len(mine) == count
            assert count


def test_a_crash_is_an_end_a_rebalance_and_partitions_that_nobody_reads(page: Page) -> None:
    shown = page.json[f"{section_of(page, 'crashed')}-data"]
    ended = [life for life in shown["lives"] if life["ended"] is not None]
    assert [life["ended"] for life in ended] == [CRASH_MS + SESSION_MS]
    assert ended[0]["endedBy"] == "expired"
    assert any(since <= CRASH_MS + SESSION_MS <= until for since, until in shown["marks"])
    assert [one["trigger"] for one in shown["rebalances"]][-1] == "expiry"
    # Both of the crashed member's partitions go to the other one, after a gap.
    for place in range(4):
        mine = [one for one in shown["holdings"] if one[0] == place]
        assert mine[-1][3] is None
        assert shown["lives"][mine[-1][1]]["ended"] is None
    moved = [one for one in shown["holdings"] if one[2] > CRASH_MS + SESSION_MS]
    assert len(moved) == 2


def test_a_stuck_partition_is_a_finding_with_its_line_and_lag_over_time(page: Page) -> None:
    section = section_of(page, "stuck")
    shown = page.json[f"{section}-data"]
    (found,) = [one for one in shown["findings"] if one["partition"] is not None]
    assert (found["topic"], found["partition"]) == ("orders", 2)
    line = next(values for topic, number, values in shown["lag"]["lines"] if number == 2)
    known = [value for value in line if value is not None]
    # Ten records a second for an hour and a half.
    assert known[-1] == pytest.approx(54_000, rel=0.02)
    assert known == sorted(known) or max(known[: len(known) // 5]) < 1000
    others = [v for _, number, values in shown["lag"]["lines"] if number != 2 for v in values if v]
    assert max(others) < 2000
    links = [a for a in page.all("a") if a.get("data-group") == section]
    assert all((link["href"] or "").removeprefix("#") in page.ids for link in links)
    assert links


def test_share_groups_have_a_section_with_what_came_again_and_again(page: Page) -> None:
    assert any(a.get("id") == SECTION for a in page.all("section"))
    assert "jobs-orders-0000" in page.text
    assert {f"orders-{partition}" for partition in range(4)} <= set(page.text)
    for wanted in ("Redelivered over time", "Records that were delivered most often", "archived"):
        assert wanted in page.text
    links = {link["href"] for link in page.all("a")}
    assert f"#{SECTION}" in links


def test_hostile_names_from_a_log_are_text(page: Page) -> None:
    assert any(HOSTILE in text for text in page.text)
    assert not page.all("img")
    shown = page.json[f"{section_of(page, HOSTILE)}-data"]
    assert shown["lanes"] == [f"{HOSTILE}-0", f"{HOSTILE}-1"]


def test_segments_give_the_same_page(spark: SparkSession, directory: Path, page: Page) -> None:
    out = directory / "segments.html"
    make_report(spark, Origin(segments=str(directory / "segments")), out, title="a log")
    again = Page(out.read_text(encoding="utf-8"))
    for group in ("crashed", "stuck"):
        left = page.json[f"{section_of(page, group)}-data"]
        right = again.json[f"{section_of(again, group)}-data"]
        for part in ("lives", "holdings", "marks", "rebalances", "rate", "places"):
            assert left[part] == right[part], part


def test_limits_are_kept_and_told(spark: SparkSession, directory: Path, page: Page) -> None:
    """Looks at the tables that the first report left."""
    from groupd.pipeline.report.collect import collect_report
    from groupd.pipeline.report.make import read_tables
    from groupd.pipeline.report.page import render

    tables = read_tables(spark, directory / "tables")
    report = collect_report(tables, "a log", window_ms(2 * HOUR_MS), ReportLimits(1, 2))
    assert (len(report.details), len(report.groups), report.groups_left_out) == (1, 2, 1)
    small = Page(render(report))
    assert any("1 groups are in the input and not on this page" in text for text in small.text)
    known = {(link["href"] or "").removeprefix("#") for link in small.all("a")}
    assert known <= set(small.ids)
    assert replace(report, made_ms=0).counts["groups"] == 3


def test_a_log_without_records_is_told_in_one_line(spark: SparkSession, directory: Path) -> None:
    later = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
    origin = Origin(store=str(directory))
    origin = replace(origin, wanted=replace(origin.wanted, from_us=later))
    with pytest.raises(PipelineError, match="no records in this time"):
        make_report(spark, origin, directory / "none.html")
