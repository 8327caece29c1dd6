"""The users that log in with SCRAM: in memory over the store (`docs/spec/security.md#2.4`). Also
the file with the users that a broker makes at its start."""

from __future__ import annotations

import binascii
import re
import secrets
from base64 import b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from groupd.coordinator.catalogue_changes import CatalogueChanges, security_of
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.slices import Pace, Turn
from groupd.coordinator.security.scram_credentials import (
    ITERATIONS_DEFAULT,
    MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential,
    from_text,
    new_salt,
    salted,
    why_not,
)
from groupd.protocol.messages.secret import Secret
from groupd.storage.log import Catalogue, LogCorrupt, SecurityEntry
from groupd.storage.private_files import others_may_read

# A change counts from the next login on. Open connections stay open.

KIND = "scram"

USER_WEIGHT = 4
"""The weight of the work on one user, in items of `Pace`."""

T = TypeVar("T")
CredentialChanges = Mapping[tuple[str, str], ScramCredential | None]
"""The new credential by (user, name of the mechanism); None removes it."""


class Users:
    """The users and their credentials. `most`: how many users there may be. `turn()` waits for the
    next turn of long work."""

    def __init__(self, store: Catalogue, changes: CatalogueChanges, most: int, turn: Turn) -> None:
        self._store = store
        self._changes = changes
        self._most = most
        self._turn = turn
        self._users: dict[str, Mapping[str, ScramCredential]] = {}
        """The credentials by name of the user and name of the mechanism. The inner tables never
        change."""
        self._iterations = _no_iterations()
        """How many credentials have a number of iterations, by name of the mechanism."""
        changes.follow(security_of(KIND), self)

    async def load(self) -> None:
        """Reads all users from the store. Raises LogError."""
        await self._changes.make(self.read_all)

    async def read_all(self) -> None:
        """See `catalogue_changes.CatalogueCache`, also for `read`."""
        found: dict[str, dict[str, ScramCredential]] = {}
        iterations, pace = _no_iterations(), Pace()
        for key, value in await self._store.security_entries(KIND):
            if pace.due(USER_WEIGHT):
                await self._turn()
            user, mechanism, stored = _entry(key, value)
            found.setdefault(user, {})[mechanism] = stored
            iterations[mechanism][stored.iterations] += 1
        self._users, self._iterations = dict(found), iterations

    async def read(self, names: Sequence[str]) -> None:
        pace = Pace()
        stored = dict(await self._store.security_entries_of(KIND, names))
        for key in names:
            if pace.due(USER_WEIGHT):
                await self._turn()
            value = stored.get(key)
            if value is None:
                mechanism, _, user = key.partition(":")
                self._set(user, mechanism, None)
            else:
                self._set(*_entry(key, value))

    def credential(self, user: str, mechanism: str) -> ScramCredential | None:
        """The user's credential, or None. `mechanism`: "SCRAM-SHA-256" or "SCRAM-SHA-512"."""
        return self._users.get(user, {}).get(mechanism)

    def credentials(self, user: str) -> Mapping[str, ScramCredential]:
        """The user's credentials by name of the mechanism; empty for an unknown user."""
        return self._users.get(user, {})

    def some_iterations(self, mechanism: str, share: float) -> int:
        """See `ScramCredentials`. A change of one user changes the result for few values of
        `share`."""
        counts = self._iterations[mechanism]
        place = int(share * counts.total())
        for iterations in sorted(counts):
            place -= counts[iterations]
            if place < 0:
                return iterations
        return ITERATIONS_DEFAULT

    def names(self) -> list[str]:
        return list(self._users)

    @property
    def room(self) -> int:
        """How many more users there may be."""
        return self._most - len(self._users)

    async def changing(self, change: Callable[[], Awaitable[T]]) -> T:
        """The result of `change()`, which may call the method `change` once: see
        `CatalogueChanges.make`. Meanwhile no other code changes users. Raises LogError, and what
        `change()` raises."""
        return await self._changes.make(change)

    async def add(self, new: CredentialChanges) -> None:
        """Adds the credentials that do not exist yet. Raises LogError."""

        async def change() -> None:
            missing = {key: one for key, one in new.items() if self.credential(*key) is None}
            if missing:
                await self.change(missing)

        await self.changing(change)

    async def change(self, changes: CredentialChanges) -> None:
        """Makes all changes durable, or none. Only inside `changing`. Raises LogError."""
        pace = Pace()
        entries = []
        for (user, mechanism), new in changes.items():
            if pace.due(USER_WEIGHT):
                await self._turn()
            value = None if new is None else new.to_text()
            entries.append(SecurityEntry(KIND, _key(user, mechanism), value))
        await self._store.change_security(entries)
        for (user, mechanism), new in changes.items():
            if pace.due(USER_WEIGHT):
                await self._turn()
            self._set(user, mechanism, new)

    def _set(self, user: str, mechanism: str, new: ScramCredential | None) -> None:
        now, counts = dict(self.credentials(user)), self._iterations[mechanism]
        before = now.pop(mechanism, None)
        if before is not None:
            counts[before.iterations] -= 1
            counts += Counter()  # removes the counts of zero
        if new is not None:
            now[mechanism] = new
            counts[new.iterations] += 1
        if now:
            self._users[user] = now
        else:
            self._users.pop(user, None)


def _no_iterations() -> dict[str, Counter[int]]:
    return {name: Counter() for name in MECHANISMS}


def _key(user: str, mechanism: str) -> str:
    return f"{mechanism}:{user}"


def _entry(key: str, value: str) -> tuple[str, str, ScramCredential]:
    """The user, mechanism and credential of an entry of the store. Raises LogCorrupt."""
    mechanism, _, user = key.partition(":")
    try:
        if mechanism not in MECHANISMS:
            raise ValueError(f"unknown mechanism {mechanism}")
        return user, mechanism, from_text(value)
    except ValueError as error:
        raise LogCorrupt(f"the credential of user {user!r}: {error}") from None


SECRET_KIND, SALTS_KEY = "secret", "scram-salts"
_BYTES = 32


async def salt_secret(store: Catalogue, changes: CatalogueChanges) -> bytes:
    """The secret for the salts of unknown users. It is made when it is first asked for. Raises
    LogError."""

    async def change() -> str:
        found = dict(await store.security_entries(SECRET_KIND)).get(SALTS_KEY)
        if found is None:
            found = secrets.token_hex(_BYTES)
            await store.change_security([SecurityEntry(SECRET_KIND, SALTS_KEY, found)])
        return found

    try:
        return bytes.fromhex(await changes.make(change))
    except ValueError:
        raise LogCorrupt("the secret for salts is no hexadecimal number") from None


# The first users ----------------------------------------------------------------------------

# Without the first users no client could log in to make others. Each line of their file is written
# as for `--add-scram` of Kafka's `kafka-storage format`; lines that begin with # are comments:
#
#     SCRAM-SHA-256=[name=admin,password=secret]
#     SCRAM-SHA-512=[name="a,b",iterations=8192,salt=BASE64,saltedpassword=BASE64]
#
# Errors name the line and never show it, because it holds a password.

FILE_BYTES_MAX = 1 << 20

_LINE = re.compile(r"(?P<mechanism>[^=\s]+)\s*=\s*\[(?P<fields>.*)\]")
_FIELD = re.compile(
    r"""\s*(?P<name>[a-z]+)=(?:"(?P<quoted>.*?)"|(?P<value>[^,]*))(?=,\s*[a-z]+=|$),?"""
)
_NAMES = {"name", "password", "salt", "iterations", "saltedpassword"}


class FirstUser(Struct, frozen=True):
    """A user of the file. `secret`: the password, or the salted password if `is_salted`. `salt`
    None: a new one is made."""

    user: str
    mechanism: ScramMechanism
    iterations: int
    salt: Secret | None
    secret: Secret
    is_salted: bool


def first_users(path: Path, users: Users) -> dict[tuple[str, str], ScramCredential]:
    """The credentials of the file that `users` do not have, by (user, name of the mechanism). Takes
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
    """The user of one line of the file. Raises ValueError, whose text shows nothing of the line."""
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
    """The credential of a user of the file. Raises ValueError."""
    mechanism, iterations = wanted.mechanism, wanted.iterations
    if not wanted.secret:
        raise ValueError("the password is empty")
    salt = new_salt() if wanted.salt is None else wanted.salt
    # Checked before the hashing: any bytes of the right size stand for the salted password.
    expected = wanted.secret if wanted.is_salted else bytes(mechanism.size)
    reason = why_not(wanted.user, mechanism, iterations, salt, expected)
    if reason is not None:
        raise ValueError(reason)
    password = wanted.secret
    if not wanted.is_salted:
        password = salted(mechanism, password.decode(), salt, iterations)
    return credential(mechanism, password, salt, iterations)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The number (from 1) and the text of each line that is not empty or a comment. Raises
    ConfigError."""
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
