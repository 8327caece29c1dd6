"""`groupd log dump`: prints the records of the coordinators' logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from groupd.coordinator.cli.completion import words
from groupd.coordinator.cli.kafka.flags import FORMAT
from groupd.coordinator.cli.log.options import (
    DataDirOption,
    GroupsOption,
    PathArgument,
    StoreOption,
    reading,
    run,
    where,
)
from groupd.coordinator.cli.parse import FORMS, now_ms, one_of, parse_time

_TOPICS = ("__consumer_offsets", "__share_group_state")


def dump(
    path: PathArgument = None,
    data_dir: DataDirOption = None,
    store: StoreOption = None,
    groups: GroupsOption = None,
    topic: Annotated[
        str | None,
        typer.Option(
            help=f"Only this log: {' or '.join(_TOPICS)}.",
            autocompletion=words(*_TOPICS),
        ),
    ] = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", min=0, help="Only this partition of the log; repeatable."),
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from", help=f"From this time on: {FORMS}."),
    ] = None,
    to_time: Annotated[str | None, typer.Option("--to", help="Before this time.")] = None,
    types: Annotated[
        str | None, typer.Option("--type", help="Record types, separated by commas.")
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            *FORMAT, help="text or json (one a line).", autocompletion=words("text", "json")
        ),
    ] = "text",
) -> None:
    """Print records of groups, offsets and share groups' state, of a store or of segment files.

    Reads beside a running daemon: nothing is locked or changed. Times of the records count.
    """
    one_of(output, "--format", ("text", "json"))
    if topic is not None:
        one_of(topic, "--topic", _TOPICS)
    place = where(data_dir, store, path)
    times = (from_time, to_time)
    try:
        run(_dump(path, place, store, topic, groups, partitions, times, types, output))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of stdout has closed it. Python flushes stdout at exit, which must not fail
        # again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _dump(
    path: Path | None,
    data_dir: Path,
    store: str | None,
    topic: str | None,
    groups: list[str] | None,
    partitions: list[int] | None,
    times: tuple[str | None, str | None],
    types: str | None,
    output: str,
) -> None:
    from groupd.coordinator.logtools.dump import Selection, dump_lines, parse_types
    from groupd.coordinator.logtools.logs import LOGS
    from groupd.coordinator.logtools.segments import LogSource, SegmentSource, StoreSource

    at_ms = now_ms()
    kinds = parse_types(types)
    from_ms, to_ms = (None if text is None else parse_time(text, at_ms) for text in times)

    def selection() -> Selection:
        return Selection(frozenset(groups or ()), kinds, from_ms, to_ms)

    async def lines(sources: Sequence[LogSource]) -> None:
        async for line in dump_lines(sources, selection, partitions, as_json=output == "json"):
            print(line)

    logs = [log for log in LOGS if topic in (None, log.topic)]
    if path is not None:
        await lines([SegmentSource(path, log) for log in logs])
        return
    async with reading(store, data_dir) as reader:
        await lines([StoreSource(reader, log) for log in logs])
