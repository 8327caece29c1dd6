"""Entry point of `groupd`: subcommands, and errors as one line with exit code 2."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer

from coordinator.cli import health, serve, show_config
from coordinator.cli.bench.command import bench
from coordinator.cli.demo.command import demo
from coordinator.cli.errors import UsageError
from coordinator.cli.groups.command import app as groups_app
from coordinator.cli.log.app import app as log_app
from coordinator.cli.replay import replay

EXIT_USAGE = 2

# typer brings a click of its own and exports only this subclass of its usage error.
TyperUsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="groupd",
    help="A standalone Kafka group coordinator (KIP-848 and classic groups).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("config")(show_config.show_config)
app.command("health")(health.health)
app.command("bench")(bench)
app.command("demo")(demo)
app.command("replay")(replay)
app.add_typer(log_app, name="log")
app.add_typer(groups_app, name="groups")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from importlib.metadata import version as installed_version

        typer.echo(f"groupd {installed_version('groupd')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def main(args: list[str] | None = None) -> None:
    """Run the command line; never returns."""
    command = typer.main.get_command(app)
    try:
        result = command.main(args, prog_name="groupd", standalone_mode=False)
    except UsageError as error:
        _usage(str(error))
    except TyperUsageError as error:
        where = getattr(error, "ctx", None)
        hint = f" (see `{where.command_path} --help`)" if where is not None else ""
        _usage(f"{error.format_message()}{hint}")
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(result if isinstance(result, int) else 0)


def _usage(text: str) -> NoReturn:
    print("groupd: " + " ".join(text.split()), file=sys.stderr)
    sys.exit(EXIT_USAGE)
