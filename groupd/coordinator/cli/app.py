"""The commands of `groupd`, for typer."""

from __future__ import annotations

import typer

from groupd.coordinator.cli import health, show_config
from groupd.coordinator.cli.acls import app as acls_app
from groupd.coordinator.cli.cluster import app as cluster_app
from groupd.coordinator.cli.configs import app as configs_app
from groupd.coordinator.cli.groups.command import app as groups_app
from groupd.coordinator.cli.log.app import app as log_app
from groupd.coordinator.cli.replay import replay
from groupd.coordinator.cli.serve import serve
from groupd.coordinator.cli.serve_flags import typer_command
from groupd.coordinator.cli.topics import app as topics_app
from groupd.coordinator.cli.users import app as users_app

app = typer.Typer(
    name="groupd",
    help="A standalone Kafka group coordinator (KIP-848 and classic groups).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("serve")(typer_command(serve))
app.command("config")(show_config.show_config)
app.command("health")(health.health)
app.command("replay")(replay)
app.add_typer(log_app, name="log")
app.add_typer(cluster_app, name="cluster")
app.add_typer(groups_app, name="groups")
app.add_typer(topics_app, name="topics")
app.add_typer(configs_app, name="configs")
app.add_typer(acls_app, name="acls")
app.add_typer(users_app, name="users")


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
