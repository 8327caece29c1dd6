"""The commands of `groupd log`."""

from __future__ import annotations

import typer

from coordinator.cli.log.dump import dump

app = typer.Typer(no_args_is_help=True)
app.command("dump")(dump)


@app.callback()
def log() -> None:
    """Look into, check, export and import the offsets log."""
