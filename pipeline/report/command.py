"""`groupd-pipeline report`: one page about all groups of a log."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pipeline.report.limits import Limits

if TYPE_CHECKING:
    from pipeline.command import Request

_INPUT, _PAGE, _SPARK = "Where the log is", "The page", "Spark"


Text = str | None
Texts = list[str] | None
Store = Annotated[
    Text, typer.Option(help="URL as for the daemon, or a data directory.", rich_help_panel=_INPUT)
]
Kafka = Annotated[
    Text,
    typer.Option(
        help="HOST:PORT of a cluster, or of a groupd: its __consumer_offsets is read.",
        rich_help_panel=_INPUT,
    ),
]
Segments = Annotated[Text, typer.Option(help="Log directory of a broker.", rich_help_panel=_INPUT)]
Lake = Annotated[Text, typer.Option(help="What the job entries wrote.", rich_help_panel=_INPUT)]
Topics = Annotated[
    Text,
    typer.Option(help="Table of topic ids: csv, json or parquet.", rich_help_panel=_INPUT),
]
EndOffsets = Annotated[
    Text,
    typer.Option(
        help="Table of end offsets, for lag: csv, json or parquet.", rich_help_panel=_INPUT
    ),
]
Group = Annotated[Texts, typer.Option(help="Only this group; repeat.", rich_help_panel=_INPUT)]
From = Annotated[
    Text, typer.Option("--from", help="Records from this time on (ISO).", rich_help_panel=_INPUT)
]
Until = Annotated[
    Text, typer.Option(help="Records before this time (ISO).", rich_help_panel=_INPUT)
]
KafkaOption = Annotated[
    Texts, typer.Option(help="NAME=VALUE for Spark's Kafka source.", rich_help_panel=_INPUT)
]
Out = Annotated[Path, typer.Option(help="The page: one HTML file.", rich_help_panel=_PAGE)]
Top = Annotated[int, typer.Option(min=0, help="So many groups with charts.", rich_help_panel=_PAGE)]
Groups = Annotated[
    int, typer.Option(min=1, help="So many groups in the list.", rich_help_panel=_PAGE)
]
Title = Annotated[Text, typer.Option(help="What the log is called.", rich_help_panel=_PAGE)]
Tables = Annotated[
    Path | None,
    typer.Option(help="Directory in which the jobs' tables stay.", rich_help_panel=_PAGE),
]
Master = Annotated[
    Text, typer.Option(help="Spark's master; local[*] if not told.", rich_help_panel=_SPARK)
]
DriverMemory = Annotated[str, typer.Option(rich_help_panel=_SPARK)]
Packages = Annotated[
    Text, typer.Option(help="Maven coordinates for Spark to fetch.", rich_help_panel=_SPARK)
]
Jars = Annotated[Text, typer.Option(help="Jar files for Spark.", rich_help_panel=_SPARK)]
Conf = Annotated[
    Texts, typer.Option(help="NAME=VALUE: a setting of Spark's own.", rich_help_panel=_SPARK)
]


def report_command(
    out: Out = Path("report.html"),
    top: Top = 30,
    groups: Groups = 1000,
    title: Title = None,
    tables: Tables = None,
    store: Store = None,
    kafka: Kafka = None,
    segments: Segments = None,
    lake: Lake = None,
    topics: Topics = None,
    end_offsets: EndOffsets = None,
    group: Group = None,
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
    # Loads Spark, which --help need not wait for.
    from pipeline.command import Request

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
    _make(request, out, Limits(min(top, groups), groups), title, tables)


def _make(
    request: Request, out: Path, limits: Limits, title: str | None, tables: Path | None
) -> None:
    from pipeline.command import running_spark
    from pipeline.progress import shown
    from pipeline.report.make import make_report
    from pipeline.session import java_version, submitted

    origin = request.origin()
    if not submitted():
        java_version()
    console = Console(stderr=True)
    started = time.monotonic()
    with running_spark(request, console) as spark:
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
