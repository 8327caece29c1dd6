"""The commands of `groupd users`: flags and help. The code that does the work is imported when a
command runs, so that other commands do not wait for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    is_json,
)

app = typer.Typer(
    help="Users that log in with SCRAM. Passwords are hashed here and never sent.",
    no_args_is_help=True,
)

DEFAULT_MECHANISM = "SCRAM-SHA-512"
DEFAULT_ITERATIONS = 4096

User = Annotated[str, typer.Argument(help="The user's name, such as alice.")]


@app.command("list")
def list_users(
    users: Annotated[
        list[str] | None, typer.Argument(help="Only these users.", metavar="[USER]...")
    ] = None,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Show users, with the mechanisms that they can log in with."""
    from groupd.coordinator.cli import users_work

    users_work.list_users(
        bootstrap_server, command_config, users or (), as_json=is_json(output), wide=wide
    )


@app.command()
def add(
    user: User,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="SCRAM-SHA-256 or SCRAM-SHA-512; may be given twice; none: SCRAM-SHA-512."
        ),
    ] = None,
    iterations: Annotated[
        int, typer.Option(help="How often the password is hashed, 4096 to 16384.")
    ] = DEFAULT_ITERATIONS,
    password_file: Annotated[
        Path | None,
        typer.Option(
            help="The password is the first line of this file; without it, of stdin, or it is "
            "asked for."
        ),
    ] = None,
) -> None:
    """Make a user, or give one a new password. Open connections stay as they are."""
    from groupd.coordinator.cli import users_work

    users_work.add_user(
        bootstrap_server,
        command_config,
        user,
        mechanism or (DEFAULT_MECHANISM,),
        iterations,
        password_file,
    )


@app.command()
def remove(
    user: User,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    mechanism: Annotated[
        list[str] | None, typer.Option(help="Only for this mechanism; none: for all.")
    ] = None,
) -> None:
    """Remove a user. Open connections stay as they are."""
    from groupd.coordinator.cli import users_work

    users_work.remove_user(bootstrap_server, command_config, user, mechanism or ())
