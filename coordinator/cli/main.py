"""Entry point of `groupd`: subcommands, and errors as one line with exit code 2."""

from __future__ import annotations

import sys

import click
import typer

from coordinator.cli import health, serve, show_config
from coordinator.cli.bench.command import bench
from coordinator.cli.demo.command import demo

EXIT_USAGE = 2

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
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        hint = f" (see `{where.command_path} --help`)" if where is not None else ""
        print(f"groupd: {error.format_message()}{hint}".replace("\n", " "), file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    sys.exit(result if isinstance(result, int) else 0)
