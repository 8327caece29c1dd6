"""The work of the commands of `groupd users`. A password comes from a file, a pipe or a prompt."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from pathlib import Path

from groupd.coordinator.cli.groups.past import asking, fail, note
from groupd.coordinator.cli.groups.tables import json_line, table
from groupd.coordinator.cli.kafka.calls import check
from groupd.coordinator.cli.kafka.cluster import open_cluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection
from groupd.coordinator.cli.parse import UsageError
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

FLAG = "--password-file"


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
    password = getpass.getpass(f"Password of {user}: ")
    if getpass.getpass("Once more: ") != password:
        raise UsageError("the two passwords are not the same")
    return password


COLUMNS = ("user", "mechanism", "iterations")


def list_users(
    bootstrap: str,
    command_config: Path | None,
    users: Sequence[str],
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Prints the credentials of the users that are named, or of all."""
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        found = _described(cluster.any(), list(dict.fromkeys(users)))
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


def add_user(
    bootstrap: str,
    command_config: Path | None,
    user: str,
    mechanisms: Sequence[str],
    iterations: int,
    password_file: Path | None,
) -> None:
    """Creates the user, or sets a new password. Raises UsageError."""
    wanted = [mechanism(name) for name in dict.fromkeys(mechanisms)]
    for one in wanted:
        reason = why_not(user, one, iterations, b"salt", bytes(one.size))
        if reason is not None:
            raise UsageError(reason)
    password = read_password(password_file, user)
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        for one in wanted:
            salt = new_salt()
            hashed = salted(one, password, salt, iterations)
            _alter(cluster.any(), ScramUpsertion(user, one.code, iterations, salt, hashed))


def remove_user(
    bootstrap: str, command_config: Path | None, user: str, mechanisms: Sequence[str]
) -> None:
    """Deletes the user's credentials of these mechanisms, or all of them. Raises UsageError."""
    codes = {mechanism(name).code for name in mechanisms}
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        found = dict(_described(cluster.any(), [user]))
        gone = [code for code, _ in found.get(user, ()) if not codes or code in codes]
        for code in gone:
            _alter(cluster.any(), ScramDeletion(user, code))
    if not gone:
        fail(f"there is no such credential of user {user}")


def _described(
    connection: BlockingConnection, users: Sequence[str]
) -> list[tuple[str, Sequence[tuple[int, int]]]]:
    """Returns those of `users` that exist (all users if it is empty), with (mechanism, iterations)
    of each credential."""
    reply: DescribeUserScramCredentialsReply = connection.call(
        DescribeUserScramCredentialsRequest(tuple(users))
    )
    check(connection, reply.error, reply.error_message)
    found = [one for one in reply.results if one.error is not ErrorCode.RESOURCE_NOT_FOUND]
    for one in found:
        check(connection, one.error, one.error_message)
    return [(one.user, one.credentials) for one in found]


def _alter(connection: BlockingConnection, change: ScramDeletion | ScramUpsertion) -> None:
    """Sends one change of a user: Kafka allows only one in a request."""
    if isinstance(change, ScramDeletion):
        request = AlterUserScramCredentialsRequest((change,), ())
    else:
        request = AlterUserScramCredentialsRequest((), (change,))
    reply: AlterUserScramCredentialsReply = connection.call(request)
    for one in reply.results:
        check(connection, one.error, one.error_message)


def mechanism(name: str) -> ScramMechanism:
    """Finds a SCRAM mechanism by name. Raises UsageError."""
    found = MECHANISMS.get(name.upper())
    if found is None:
        raise UsageError(f"--mechanism {name}: must be {' or '.join(MECHANISMS)}")
    return found


def _mechanism_name(code: int) -> str:
    known = MECHANISM_BY_CODE.get(code)
    return f"mechanism {code}" if known is None else known.name
