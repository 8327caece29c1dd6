"""The commands of `groupd`, for typer."""

from __future__ import annotations

import typer

from groupd import __version__
from groupd.coordinator.cli.serve_flags import ServeFlags, typer_command

NAMES = (
    *("serve", "config", "health", "replay"),
    *("log", "cluster", "groups", "topics", "configs", "acls", "users"),
)
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
    for name in (word,) if word in NAMES else NAMES:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    match name:
        case "serve":
            app.command(name)(typer_command(serve))
        case "config":
            from groupd.coordinator.cli.show_config import show_config

            app.command(name)(show_config)
        case "health":
            from groupd.coordinator.cli.health import health

            app.command(name)(health)
        case "replay":
            from groupd.coordinator.cli.replay import replay

            app.command(name)(replay)
        case "log":
            from groupd.coordinator.cli.log.app import app as log

            app.add_typer(log, name=name)
        case "cluster":
            from groupd.coordinator.cli.cluster import app as cluster

            app.add_typer(cluster, name=name)
        case "groups":
            from groupd.coordinator.cli.groups.command import app as groups

            app.add_typer(groups, name=name)
        case "topics":
            from groupd.coordinator.cli.topics import app as topics

            app.add_typer(topics, name=name)
        case "configs":
            from groupd.coordinator.cli.configs import app as configs

            app.add_typer(configs, name=name)
        case "acls":
            from groupd.coordinator.cli.acls import app as acls

            app.add_typer(acls, name=name)
        case "users":
            from groupd.coordinator.cli.users import app as users

            app.add_typer(users, name=name)


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
