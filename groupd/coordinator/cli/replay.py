"""`groupd replay`: replays a recording with this build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupd.coordinator.cli.parse import UsageError, key_value
from groupd.coordinator.cli.tables import json_line

if TYPE_CHECKING:
    from groupd.coordinator.recording.difference import Difference
    from groupd.coordinator.recording.replay import RecordingReplay


def replay(
    file: Annotated[
        Path, typer.Argument(help="What `groupd serve --record` wrote; may be gzipped.")
    ],
    until: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only requests up to this number.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Only differences in requests that name this group.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every difference, not the first.")] = False,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="KEY=VALUE over the recorded configuration; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False,
) -> None:
    """Run a recording against this build and show the first difference.

    Exit codes: 0 = every reply is as recorded, 1 = there are differences, 2 = the file cannot be
    replayed.
    """
    from groupd.coordinator.logs import configure_logging
    from groupd.coordinator.recording.reader import BadRecording
    from groupd.coordinator.recording.replay import RecordingReplay

    configure_logging("text", "error")
    try:
        run = RecordingReplay(file, dict(key_value(item) for item in sets or ()))
        found = _wanted(run.differences(until), group)
        shown = list(found) if all_ else [one for one in (next(found, None),) if one is not None]
    except BadRecording as error:
        raise UsageError(str(error)) from None
    _print(run, shown, as_json=as_json, every=all_)
    if shown:
        raise typer.Exit(1)


def _wanted(found: Iterator[Difference], group: str | None) -> Iterator[Difference]:
    return (one for one in found if group is None or group in one.request.groups)


def _print(run: RecordingReplay, shown: list[Difference], *, as_json: bool, every: bool) -> None:
    header = run.file.header
    facts: dict[str, Any] = {
        "file": str(run.file.path),
        "recorded_by": header.get("version"),
        "inputs": run.inputs,
        "requests": run.requests,
        "replies_compared": run.compared,
        "ended": run.end or "torn",
    }
    if as_json:
        json_line({**facts, "differences": [one.as_json() for one in shown]})
        return
    ended = "" if run.end == "stopped" else f", {_ending(run)}"
    by = f"recorded by groupd {header.get('version')}{ended}"
    typer.echo(f"{run.file.path}: {run.requests} requests, {by}")
    if not shown:
        typer.echo(f"no difference in {run.compared} replies")
    for number, one in enumerate(shown, start=1):
        typer.echo(f"difference {number}: {one}" if every else f"first difference: {one}")


def _ending(run: RecordingReplay) -> str:
    if run.end is None:
        return "cut off in the middle"
    reasons = {"limit": "size limit", "queue": "slow disk", "disk": "disk error"}
    return f"ended early ({reasons.get(run.end, run.end)})"
