"""The commands of `groupd log`."""

from __future__ import annotations

import typer

from groupd.coordinator.cli.log.consume import consume
from groupd.coordinator.cli.log.dump import dump
from groupd.coordinator.cli.log.export import export
from groupd.coordinator.cli.log.import_ import import_log
from groupd.coordinator.cli.log.verify import verify

app = typer.Typer(
    help="Look into, check, export and import the logs of groups.", no_args_is_help=True
)
app.command("dump")(dump)
app.command("verify")(verify)
app.command("export")(export)
app.command("consume")(consume)
app.command("import")(import_log)
