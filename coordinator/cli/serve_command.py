"""The flags of `groupd serve`, for typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupd.coordinator.cli import serve as serving
from groupd.coordinator.cli.parse import directory
from groupd.coordinator.cli.plain_flags import WORKERS_MAX

DataDirOption = Annotated[
    Path, typer.Option(parser=directory, metavar="DIR", help="Where the embedded store lives.")
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        envvar="GROUPD_STORE",
        help="Store URL: postgresql+asyncpg://..., sqlite+aiosqlite:///... or memory://; "
        "default SQLite in the data directory.",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write every request, reply, timer and fault to a new file, for `groupd replay`.",
    ),
]
RecordMax = Annotated[
    int, typer.Option(metavar="MIB", min=1, help="Size at which the recording ends.")
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", help="NAME:PARTITIONS, created at start; repeatable."),
]
Control = Annotated[
    bool,
    typer.Option(
        "--control",
        help="Testing: faults, time and waits under /control of the admin port, which must be on "
        "a loopback address; the store is in memory.",
    ),
]
ControlAnywhere = Annotated[
    bool,
    typer.Option(
        "--control-anywhere",
        help="Allow --control on an address that others reach: they can do anything.",
    ),
]
UntilStdinEnds = Annotated[
    bool,
    typer.Option(
        "--until-stdin-ends",
        help="Stop when stdin ends, so that the daemon does not outlive the program that started "
        "it with a pipe there, however that ends.",
    ),
]

Workers = Annotated[
    int,
    typer.Option(
        min=1,
        max=WORKERS_MAX,
        help="Processes that the groups are spread over, each a node on a port of its own above "
        "--listen; 1: everything in one process.",
    ),
]


def serve(
    listen: Annotated[
        str, typer.Option(help="Kafka address, HOST:PORT; port 0 takes any free port.")
    ] = "127.0.0.1:9092",
    advertised: Annotated[
        str | None, typer.Option(help="Address that clients are told, HOST:PORT.")
    ] = None,
    admin: Annotated[
        str, typer.Option(help="Admin HTTP address (/healthz /readyz /groups /metrics /config).")
    ] = "127.0.0.1:9644",
    data_dir: DataDirOption = Path("./groupd-data"),
    store: StoreUrl = None,
    topics: Topics = None,
    config: Annotated[
        Path | None, typer.Option(help="Config file: TOML, or Kafka-style .properties.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE with Kafka's config names; repeatable."),
    ] = None,
    profile: Annotated[str, typer.Option(help="default or test; below --set.")] = "default",
    workers: Workers = 1,
    control: Control = False,
    control_anywhere: ControlAnywhere = False,
    record: Record = None,
    record_max: RecordMax = 1024,
    until_stdin_ends: UntilStdinEnds = False,
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve Kafka clients until SIGTERM or SIGINT.

    Prints one line on stdout once it serves; logs go to stderr.
    """
    serving.serve(
        listen=listen,
        advertised=advertised,
        admin=admin,
        data_dir=data_dir,
        store=store,
        topics=topics,
        config=config,
        sets=sets,
        profile=profile,
        workers=workers,
        control=control,
        control_anywhere=control_anywhere,
        record=record,
        record_max=record_max,
        until_stdin_ends=until_stdin_ends,
        log_format=log_format,
        log_level=log_level,
    )
