"""What the commands of `groupd users` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.groups.past import fail, note
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.tables import table
from groupd.coordinator.cli.kafka.client_config import connect
from groupd.coordinator.cli.kafka.connection import KafkaError
from groupd.coordinator.cli.kafka.user_calls import (
    ALTER_USERS,
    DESCRIBE_USERS,
    alter_user,
    describe_users,
)
from groupd.coordinator.cli.users.password import read_password
from groupd.coordinator.security.scram_credentials import (
    MECHANISM_BY_CODE,
    MECHANISMS,
    ScramMechanism,
    new_salt,
    salted,
    why_not,
)
from groupd.protocol.messages.users import ScramDeletion, ScramUpsertion

COLUMNS = ("user", "mechanism", "iterations")


def list_users(
    bootstrap: str,
    command_config: Path | None,
    users: Sequence[str],
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Print the credentials of the users that are named, or of all."""
    try:
        with connect(bootstrap, command_config, (DESCRIBE_USERS,)) as connection:
            found = describe_users(connection, list(dict.fromkeys(users)))
    except KafkaError as error:
        fail(str(error))
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
    """Make the user, or give it a new password. Raises UsageError."""
    wanted = [mechanism(name) for name in dict.fromkeys(mechanisms)]
    for one in wanted:
        reason = why_not(user, one, iterations, b"salt", bytes(one.size))
        if reason is not None:
            raise UsageError(reason)
    password = read_password(password_file, user)
    try:
        with connect(bootstrap, command_config, (ALTER_USERS,)) as connection:
            for one in wanted:
                salt = new_salt()
                hashed = salted(one, password, salt, iterations)
                alter_user(connection, ScramUpsertion(user, one.code, iterations, salt, hashed))
    except KafkaError as error:
        fail(str(error))


def remove_user(
    bootstrap: str, command_config: Path | None, user: str, mechanisms: Sequence[str]
) -> None:
    """Delete the user's credentials of these mechanisms, or all of them. Raises UsageError."""
    codes = {mechanism(name).code for name in mechanisms}
    try:
        with connect(bootstrap, command_config, (DESCRIBE_USERS, ALTER_USERS)) as connection:
            found = dict(describe_users(connection, [user]))
            gone = [code for code, _ in found.get(user, ()) if not codes or code in codes]
            for code in gone:
                alter_user(connection, ScramDeletion(user, code))
    except KafkaError as error:
        fail(str(error))
    if not gone:
        fail(f"there is no such credential of user {user}")


def mechanism(name: str) -> ScramMechanism:
    """Raises UsageError."""
    found = MECHANISMS.get(name.upper())
    if found is None:
        raise UsageError(f"--mechanism {name}: must be {' or '.join(MECHANISMS)}")
    return found


def _mechanism_name(code: int) -> str:
    known = MECHANISM_BY_CODE.get(code)
    return f"mechanism {code}" if known is None else known.name
