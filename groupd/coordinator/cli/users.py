"""`groupd users`: the users that log in with SCRAM, and their passwords."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupd.coordinator.cli.command_errors import fail, note
from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    asked_cluster,
    is_json,
)
from groupd.coordinator.cli.parse import UsageError
from groupd.coordinator.cli.tables import json_line, table
from groupd.coordinator.security.scram_credentials import (
    MECHANISM_BY_CODE,
    MECHANISMS,
    ScramMechanism,
    new_salt,
    salted,
    why_not,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.users import (
    AlterUserScramCredentialsReply,
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsReply,
    DescribeUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.storage.private_files import others_may_read

if TYPE_CHECKING:
    from groupd.coordinator.cli.kafka.connection import BlockingConnection

app = typer.Typer(
    help="Users that log in with SCRAM. Passwords are hashed here and never sent.",
    no_args_is_help=True,
)

DEFAULT_MECHANISM = "SCRAM-SHA-512"
DEFAULT_ITERATIONS = 4096
FLAG = "--password-file"
COLUMNS = ("user", "mechanism", "iterations")

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
    as_json = is_json(output)
    with asked_cluster(bootstrap_server, command_config) as cluster:
        found = _described(cluster.any(), list(dict.fromkeys(users or ())))
    rows = [
        (user, _mechanism_name(code), iterations)
        for user, credentials in sorted(found)
        for code, iterations in credentials
    ]
    if as_json:
        for row in rows:
            json_line(dict(zip(COLUMNS, row, strict=True)))
    elif rows:
        table(COLUMNS, [(user, name, str(count)) for user, name, count in rows], wide=wide)
    else:
        note("no users")


@app.command()
def add(
    user: User,
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="SCRAM-SHA-256 or SCRAM-SHA-512 (if none is given); may be given twice."),
    ] = None,
    iterations: Annotated[
        int, typer.Option(help="How often the password is hashed, 4096 to 16384.")
    ] = DEFAULT_ITERATIONS,
    password_file: Annotated[
        Path | None,
        typer.Option(
            help="The password is the first line of this file. Without a file it is the first "
            "line of stdin; on a terminal it is asked for."
        ),
    ] = None,
) -> None:
    """Create a user, or set a new password. Open connections stay as they are."""
    wanted = [mechanism_named(name) for name in dict.fromkeys(mechanism or (DEFAULT_MECHANISM,))]
    for one in wanted:
        reason = why_not(user, one, iterations, b"salt", bytes(one.size))
        if reason is not None:
            raise UsageError(reason)
    password = read_password(password_file, user)
    with asked_cluster(bootstrap_server, command_config) as cluster:
        for one in wanted:
            salt = new_salt()
            hashed = salted(one, password, salt, iterations)
            _alter(cluster.any(), ScramUpsertion(user, one.code, iterations, salt, hashed))


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
    codes = {mechanism_named(name).code for name in mechanism or ()}
    with asked_cluster(bootstrap_server, command_config) as cluster:
        found = dict(_described(cluster.any(), [user]))
        gone = [code for code, _ in found.get(user, ()) if not codes or code in codes]
        for code in gone:
            _alter(cluster.any(), ScramDeletion(user, code))
    if not gone:
        fail(f"there is no such credential of user {user}")


def read_password(file: Path | None, user: str) -> str:
    """Reads the first line of `file`, or of stdin if there is no file. If stdin is a terminal, the
    user types the password twice. Raises UsageError."""
    try:
        if file is not None:
            password = _of_file(file)
        elif sys.stdin.isatty():
            password = _typed(user)
        else:
            password = sys.stdin.readline()
    except UnicodeDecodeError:
        raise UsageError("the password is not UTF-8") from None
    password = password.removesuffix("\n").removesuffix("\r")
    if not password:
        raise UsageError("the password is empty")
    return password


def _of_file(file: Path) -> str:
    try:
        if file.is_file() and others_may_read(file):
            raise UsageError(f"{FLAG} {file}: every user of this machine may read it: chmod 600 it")
        with file.open(encoding="utf-8") as lines:
            return lines.readline()
    except OSError as error:
        raise UsageError(f"{FLAG} {file}: {error.strerror}") from None


def _typed(user: str) -> str:
    import getpass  # imported here, because few commands need it

    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("Once more: ") != password:
        raise UsageError("the two passwords are not the same")
    return password


def _described(
    connection: BlockingConnection, users: Sequence[str]
) -> list[tuple[str, Sequence[tuple[int, int]]]]:
    """Returns those of `users` that exist (all users if it is empty), with (mechanism, iterations)
    of each credential."""
    reply: DescribeUserScramCredentialsReply = connection.call(
        DescribeUserScramCredentialsRequest(tuple(users))
    )
    connection.check(reply.error, reply.error_message)
    found = [one for one in reply.results if one.error is not ErrorCode.RESOURCE_NOT_FOUND]
    for one in found:
        connection.check(one.error, one.error_message)
    return [(one.user, one.credentials) for one in found]


def _alter(connection: BlockingConnection, change: ScramDeletion | ScramUpsertion) -> None:
    """Sends one change of a user: Kafka allows only one in a request."""
    if isinstance(change, ScramDeletion):
        request = AlterUserScramCredentialsRequest((change,), ())
    else:
        request = AlterUserScramCredentialsRequest((), (change,))
    reply: AlterUserScramCredentialsReply = connection.call(request)
    for one in reply.results:
        connection.check(one.error, one.error_message)


def mechanism_named(name: str) -> ScramMechanism:
    """Finds a SCRAM mechanism by name. Raises UsageError."""
    found = MECHANISMS.get(name.upper())
    if found is None:
        raise UsageError(f"--mechanism {name}: must be {' or '.join(MECHANISMS)}")
    return found


def _mechanism_name(code: int) -> str:
    known = MECHANISM_BY_CODE.get(code)
    return f"mechanism {code}" if known is None else known.name
