"""The commands of `groupd`, for typer."""

from __future__ import annotations

from collections.abc import Callable

import typer

from groupd import __version__
from groupd.coordinator.cli.serve_flags import ServeFlags, typer_command

COMMANDS = ("serve", "config", "health", "replay")
GROUPS = ("log", "cluster", "groups", "topics", "configs", "acls", "users")
"""The first words of commands, in the order of `--help`."""


def app_of(word: str = "") -> typer.Typer:
    """Returns the commands of `groupd` whose first word is `word`; all commands if there are none,
    for help and for mistakes. So a command does not wait for the modules of the others."""
    app = typer.Typer(
        name="groupd",
        help="A standalone Kafka group coordinator (KIP-848 and classic groups).",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(root)
    known = (*COMMANDS, *GROUPS)
    for name in (word,) if word in known else known:
        if name in GROUPS:
            app.add_typer(_group(name), name=name)
        else:
            app.command(name)(_command(name))
    return app


def _command(name: str) -> Callable[..., None]:
    command: Callable[..., None]
    match name:
        case "serve":
            command = typer_command(serve)
        case "config":
            from groupd.coordinator.cli.show_config import show_config as command
        case "health":
            from groupd.coordinator.cli.health import health as command
        case "replay":
            from groupd.coordinator.cli.replay import replay as command
    return command


def _group(name: str) -> typer.Typer:
    match name:
        case "log":
            from groupd.coordinator.cli.log.app import app
        case "cluster":
            from groupd.coordinator.cli.cluster import app
        case "groups":
            from groupd.coordinator.cli.groups.command import app
        case "topics":
            from groupd.coordinator.cli.topics import app
        case "configs":
            from groupd.coordinator.cli.configs import app
        case "acls":
            from groupd.coordinator.cli.acls import app
        case "users":
            from groupd.coordinator.cli.users import app
    return app


def serve(flags: ServeFlags) -> None:
    """Serve Kafka clients until SIGTERM or SIGINT.

    Prints one line on stdout once it serves; logs go to stderr.
    """
    # Imported here, because `--help` needs no daemon.
    from groupd.coordinator.cli.serve import serve

    serve(flags)


def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(f"groupd {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit
