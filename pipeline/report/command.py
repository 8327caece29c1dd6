"""`groupd-pipeline report`: one page about all groups of a log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

_INPUT, _PAGE, _SPARK = "Where the log is", "The page", "Spark"


def report_command(
    out: Annotated[
        Path, typer.Option(help="The page: one HTML file.", rich_help_panel=_PAGE)
    ] = Path("report.html"),
    top: Annotated[
        int, typer.Option(min=0, help="So many groups with charts.", rich_help_panel=_PAGE)
    ] = 30,
    groups: Annotated[
        int, typer.Option(min=1, help="So many groups in the list.", rich_help_panel=_PAGE)
    ] = 1000,
    title: Annotated[
        str | None, typer.Option(help="What the log is called.", rich_help_panel=_PAGE)
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(help="Directory in which the jobs' tables stay.", rich_help_panel=_PAGE),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="URL as for the daemon, or a data directory.", rich_help_panel=_INPUT),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT of a cluster, or of a groupd: its __consumer_offsets is read.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    segments: Annotated[
        str | None, typer.Option(help="Log directory of a broker.", rich_help_panel=_INPUT)
    ] = None,
    lake: Annotated[
        str | None, typer.Option(help="What the job entries wrote.", rich_help_panel=_INPUT)
    ] = None,
    topics: Annotated[
        str | None,
        typer.Option(help="Table of topic ids: csv, json or parquet.", rich_help_panel=_INPUT),
    ] = None,
    end_offsets: Annotated[
        str | None,
        typer.Option(
            help="Table of end offsets, for lag: csv, json or parquet.", rich_help_panel=_INPUT
        ),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Only this group; repeat.", rich_help_panel=_INPUT)
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Records from this time on (ISO).", rich_help_panel=_INPUT),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Records before this time (ISO).", rich_help_panel=_INPUT),
    ] = None,
    kafka_option: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for Spark's Kafka source.", rich_help_panel=_INPUT),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Spark's master; local[*] if not told.", rich_help_panel=_SPARK),
    ] = None,
    driver_memory: Annotated[str, typer.Option(rich_help_panel=_SPARK)] = "2g",
    packages: Annotated[
        str | None,
        typer.Option(help="Maven coordinates for Spark to fetch.", rich_help_panel=_SPARK),
    ] = None,
    jars: Annotated[
        str | None, typer.Option(help="Jar files for Spark.", rich_help_panel=_SPARK)
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: a setting of Spark's own.", rich_help_panel=_SPARK),
    ] = None,
) -> None:
    """Run the jobs progress, members, rebalances and health, and make one page of what they find.

    The page needs no network and nothing beside itself.
    """
    from pipeline.command import Request, running_spark
    from pipeline.progress import shown
    from pipeline.report.collect import Limits
    from pipeline.report.make import make_report
    from pipeline.session import java_version, submitted

    request = Request(
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
    if not submitted():
        java_version()
    origin = request.origin()
    console = Console(stderr=True)
    started = time.monotonic()
    with running_spark(request, console) as spark:
        size = make_report(
            spark,
            origin,
            out,
            work=tables,
            limits=Limits(min(top, groups), groups),
            title=title,
            watch=lambda what: shown(spark, console, what),
        )
    print(f"{out}: {size / 1024:,.0f} KiB, in {time.monotonic() - started:.0f} s")
