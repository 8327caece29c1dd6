"""`groupd-pipeline report`: one page about all groups of a log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from groupd.pipeline.arguments import (
    Conf,
    DriverMemory,
    EndOffsets,
    From,
    GroupFlag,
    Jars,
    Kafka,
    KafkaOption,
    Lake,
    Master,
    Packages,
    Segments,
    StoreFlag,
    TopicsFlag,
    Until,
)
from groupd.pipeline.report.model import ReportLimits

if TYPE_CHECKING:
    from groupd.pipeline.command import JobRequest

_PAGE = "The page"


Out = Annotated[Path, typer.Option(help="The page: one HTML file.", rich_help_panel=_PAGE)]
Top = Annotated[int, typer.Option(min=0, help="So many groups with charts.", rich_help_panel=_PAGE)]
GroupsFlag = Annotated[
    int, typer.Option(min=1, help="So many groups in the list.", rich_help_panel=_PAGE)
]
Title = Annotated[str | None, typer.Option(help="What the log is called.", rich_help_panel=_PAGE)]
Tables = Annotated[
    Path | None,
    typer.Option(help="Directory in which the jobs' tables stay.", rich_help_panel=_PAGE),
]


def report_command(
    out: Out = Path("report.html"),
    top: Top = 30,
    groups: GroupsFlag = 1000,
    title: Title = None,
    tables: Tables = None,
    store: StoreFlag = None,
    kafka: Kafka = None,
    segments: Segments = None,
    lake: Lake = None,
    topics: TopicsFlag = None,
    end_offsets: EndOffsets = None,
    group: GroupFlag = None,
    from_: From = None,
    until: Until = None,
    kafka_option: KafkaOption = None,
    master: Master = None,
    driver_memory: DriverMemory = "2g",
    packages: Packages = None,
    jars: Jars = None,
    conf: Conf = None,
) -> None:
    """Run the jobs progress, members, rebalances and health, and make one page of what they find.

    The page needs no network and nothing beside itself.
    """
    # This import loads Spark, which --help need not wait for.
    from groupd.pipeline.command import JobRequest

    request = JobRequest(
        job="report",
        store=store,
        kafka=kafka,
        segments=segments,
        lake=lake,
        topics=topics,
        end_offsets=end_offsets,
        kafka_options=tuple(kafka_option or ()),
        groups=tuple(group or ()),
        from_time=from_,
        until_time=until,
        master=master,
        driver_memory=driver_memory,
        packages=packages,
        jars=jars,
        conf=tuple(conf or ()),
    )
    _make(request, out, ReportLimits(min(top, groups), groups), title, tables)


def _make(
    request: JobRequest, out: Path, limits: ReportLimits, title: str | None, tables: Path | None
) -> None:
    from groupd.pipeline.command import running_spark, shown
    from groupd.pipeline.report.make import make_report
    from groupd.pipeline.report.page import page_parts
    from groupd.pipeline.session import java_version, submitted

    # Otherwise a page that is not built would be noticed only after all jobs have run.
    page_parts()
    origin = request.origin()
    if not submitted():
        java_version()
    console = Console(stderr=True)
    started = time.monotonic()
    with running_spark(request, origin, console) as spark:
        size = make_report(
            spark,
            origin,
            out,
            work=tables,
            limits=limits,
            title=title,
            watch=lambda what: shown(spark, console, what),
        )
    print(f"{out}: {size / 1024:,.0f} KiB, in {time.monotonic() - started:.0f} s")
