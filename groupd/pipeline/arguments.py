"""Command-line options that several commands share: where the log is, and settings of Spark."""

from __future__ import annotations

from typing import Annotated

import typer

_INPUT, _SPARK = "Where the log is", "Spark"

StoreFlag = Annotated[
    str | None,
    typer.Option(help="URL as for the daemon, or a data directory.", rich_help_panel=_INPUT),
]
Kafka = Annotated[
    str | None,
    typer.Option(
        help="HOST:PORT of a cluster, or of a groupd: its __consumer_offsets is read.",
        rich_help_panel=_INPUT,
    ),
]
Segments = Annotated[
    str | None, typer.Option(help="Log directory of a broker.", rich_help_panel=_INPUT)
]
Lake = Annotated[
    str | None, typer.Option(help="What the job entries wrote.", rich_help_panel=_INPUT)
]
TopicsFlag = Annotated[
    str | None,
    typer.Option(help="Table of topic ids: csv, json or parquet.", rich_help_panel=_INPUT),
]
EndOffsets = Annotated[
    str | None,
    typer.Option(help="Table of end offsets: csv, json or parquet.", rich_help_panel=_INPUT),
]
KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        help="NAME=VALUE for Spark's Kafka source, like kafka.security.protocol=SSL.",
        rich_help_panel=_INPUT,
    ),
]
GroupFlag = Annotated[
    list[str] | None, typer.Option(help="Only this group; repeat.", rich_help_panel=_INPUT)
]
From = Annotated[
    str | None,
    typer.Option("--from", help="Records from this time on (ISO).", rich_help_panel=_INPUT),
]
Until = Annotated[
    str | None,
    typer.Option(help="Records before this time (ISO).", rich_help_panel=_INPUT),
]
Master = Annotated[
    str | None,
    typer.Option(help="Spark's master; local[*] if not told.", rich_help_panel=_SPARK),
]
DriverMemory = Annotated[str, typer.Option(rich_help_panel=_SPARK)]
Packages = Annotated[
    str | None,
    typer.Option(help="Maven coordinates for Spark to fetch.", rich_help_panel=_SPARK),
]
Jars = Annotated[str | None, typer.Option(help="Jar files for Spark.", rich_help_panel=_SPARK)]
Conf = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE: a setting of Spark's own.", rich_help_panel=_SPARK),
]
