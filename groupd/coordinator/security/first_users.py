"""The file with the users that a broker makes at its start (`docs/spec/security.md#2.4`).

Without them nobody could log in to make the first user. Each line is as for `--add-scram` of
Kafka's `kafka-storage format`; lines that begin with # are comments:

    SCRAM-SHA-256=[name=admin,password=secret]
    SCRAM-SHA-512=[name="a,b",iterations=8192,salt=BASE64,saltedpassword=BASE64]

Errors name the line and never show it, because it holds a password.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.scram_credentials import (
    ITERATIONS_DEFAULT,
    MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential,
    new_salt,
    salted,
    why_not,
)
from groupd.coordinator.security.users import Users
from groupd.protocol.messages.secret import Secret
from groupd.storage.private_files import others_may_read

FILE_BYTES_MAX = 1 << 20

_LINE = re.compile(r"(?P<mechanism>[^=\s]+)\s*=\s*\[(?P<fields>.*)\]")
_FIELD = re.compile(
    r"""\s*(?P<name>[a-z]+)=(?:"(?P<quoted>.*?)"|(?P<value>[^,]*))(?=,\s*[a-z]+=|$),?"""
)
_NAMES = {"name", "password", "salt", "iterations", "saltedpassword"}


class FirstUser(Struct, frozen=True):
    """`secret`: the password, or if `is_salted` what a client makes of it. `salt` None: any."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: Secret | None
    secret: Secret
    is_salted: bool


def first_users(path: Path, users: Users) -> dict[tuple[str, str], ScramCredential]:
    """The credentials in the file that `users` do not have, by (user, name of the mechanism). Takes
    milliseconds for each. Raises ConfigError."""
    made: dict[tuple[str, str], ScramCredential] = {}
    for number, line in _lines(path):
        try:
            wanted = parse(line)
            key = wanted.user, wanted.mechanism.name
            if key in made:
                raise ValueError("the same user and mechanism stand in a line before")
            if users.credential(*key) is None:
                made[key] = _credential(wanted)
        except ValueError as error:
            raise _bad(path, f"line {number}: {error}") from None
    if len({user for user, _ in made if not users.credentials(user)}) > users.room:
        raise _bad(path, "more users than there may be")
    return made


def parse(line: str) -> FirstUser:
    """One line of the file. Raises ValueError, whose text shows nothing of the line."""
    match = _LINE.fullmatch(line.strip())
    mechanism = MECHANISMS.get(match["mechanism"]) if match else None
    if match is None or mechanism is None:
        raise ValueError(f"must be {' or '.join(MECHANISMS)}=[name=...,password=...]")
    fields = dict(_fields(match["fields"]))
    if "name" not in fields:
        raise ValueError("name is missing")
    if ("password" in fields) == ("saltedpassword" in fields):
        raise ValueError("either password or saltedpassword must be there")
    is_salted = "saltedpassword" in fields
    if is_salted and "salt" not in fields:
        raise ValueError("saltedpassword without its salt")
    secret = _base64(fields, "saltedpassword") if is_salted else Secret(fields["password"].encode())
    iterations = fields.get("iterations", str(ITERATIONS_DEFAULT))
    if not (iterations.isascii() and iterations.isdigit() and len(iterations) < 10):
        raise ValueError("iterations must be a number")
    salt = _base64(fields, "salt") if "salt" in fields else None
    return FirstUser(fields["name"], mechanism, int(iterations), salt, secret, is_salted)


def _fields(text: str) -> Iterator[tuple[str, str]]:
    seen = set()
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None or match["name"] not in _NAMES:
            raise ValueError(f"between the brackets: {', '.join(sorted(_NAMES))} with = and commas")
        name = match["name"]
        if name in seen:
            raise ValueError(f"{name} is there twice")
        seen.add(name)
        at = match.end()
        yield name, match["value"] if match["quoted"] is None else match["quoted"]


def _base64(fields: dict[str, str], name: str) -> Secret:
    try:
        return Secret(b64decode(fields[name], validate=True))
    except binascii.Error:
        raise ValueError(f"{name} is not base64") from None


def _credential(wanted: FirstUser) -> ScramCredential:
    """Raises ValueError."""
    mechanism, iterations = wanted.mechanism, wanted.iterations
    if not wanted.secret:
        raise ValueError("the password is empty")
    salt = new_salt() if wanted.salt is None else wanted.salt
    # Before the work of hashing: any bytes of the right size stand for the salted password.
    expected = wanted.secret if wanted.is_salted else bytes(mechanism.size)
    reason = why_not(wanted.user, mechanism, iterations, salt, expected)
    if reason is not None:
        raise ValueError(reason)
    password = wanted.secret
    if not wanted.is_salted:
        password = salted(mechanism, password.decode(), salt, iterations)
    return credential(mechanism, password, salt, iterations)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of each line that says something. Raises ConfigError."""
    try:
        if others_may_read(path):
            raise _bad(path, "every user of this machine may read it: chmod 600 it")
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise _bad(path, f"has more than {FILE_BYTES_MAX} bytes")
        lines = content.decode().splitlines()
    except OSError as error:
        raise _bad(path, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise _bad(path, "is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _bad(path: Path, why: str) -> ConfigError:
    return ConfigError(f"groupd.scram.users.file={path}: {why}")
