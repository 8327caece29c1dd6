"""The tokens of the admin port: each is a secret that its owner sends with every request, and
stands for a role (`docs/spec/security.md#7`).

Only the SHA-256 of a token is kept in memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from enum import IntEnum
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

import structlog

from groupd.coordinator.config.settings import ConfigError

log = structlog.get_logger("groupd.admin")

VARIABLE = "GROUPD_ADMIN_TOKENS"
"""Tokens in the environment: as in the file, with semicolons instead of line ends."""
TOKENS_MAX = 100
FILE_BYTES_MAX = 65536
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,1024}")
_GROUP_MAY_WRITE = 0o020


class Role(IntEnum):
    """What a client of the admin port may do; a larger one may also do what a smaller one may."""

    READ = 1
    ADMIN = 2


class Tokens:
    """The tokens of a file, of the environment (`more`), or of both. Raises ConfigError."""

    def __init__(self, path: Path | None, more: str = "") -> None:
        self._path = path
        self._more = _read_lines(more.split(";"), VARIABLE)
        self._state: object = None
        self._known = self._more
        if path is not None:
            self._state = _state(path)
            self._known = [*self._more, *_read_file(path)]

    def role(self, token: str) -> Role | None:
        """The role of a token; None if it is unknown. Takes the same time whichever token it is.
        May read the file again; so it belongs on a thread."""
        self._refresh()
        wanted, found = _digest(token), None
        for digest, role in self._known:
            if compare_digest(digest, wanted):
                found = role
        return found

    def _refresh(self) -> None:
        """Reads the file again if it has changed. A file that has become bad leaves the tokens as
        they are."""
        if self._path is None or (state := _state(self._path)) == self._state:
            return
        self._state = state
        try:
            self._known = [*self._more, *_read_file(self._path)]
        except ConfigError as error:
            log.warning("tokens of the admin port stay as they were", reason=str(error))
        else:
            log.info("tokens of the admin port were read again", count=len(self._known))


def _state(path: Path) -> object:
    """A value that changes with the file."""
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return (found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode)


def _read_file(path: Path) -> list[tuple[bytes, Role]]:
    where = f"groupd.admin.token.file={path}"
    try:
        with path.open("rb") as file:
            _check_rights(os.fstat(file.fileno()), where)
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{where}: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{where}: has more than {FILE_BYTES_MAX} bytes")
    found = _read_lines(raw.decode(errors="replace").splitlines(), where)
    if not found:
        raise ConfigError(f"{where}: has no token; a line is a role (read or admin) and a token")
    return found


def _check_rights(file: os.stat_result, where: str) -> None:
    """Only the owner may read it. If that is root, groupd's group may, too: secrets that are
    mounted into a container look like that."""
    mode = stat.S_IMODE(file.st_mode)
    theirs = 0o007 | _GROUP_MAY_WRITE if file.st_uid == 0 and os.geteuid() != 0 else 0o077
    if mode & theirs:
        raise ConfigError(f"{where}: others may read it (mode {mode:04o}); use chmod 600")


def _read_lines(lines: Iterable[str], where: str) -> list[tuple[bytes, Role]]:
    """The digests of the tokens, with their roles. The error tells the line's number, and nothing
    of what is in it."""
    found = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or words[0].upper() not in Role.__members__:
            raise ConfigError(f"{where}: line {number} is not a role (read or admin) and a token")
        if not _TOKEN.fullmatch(words[1]):
            raise ConfigError(
                f"{where}: the token in line {number} must have 16 to 1024 letters, digits or "
                "characters of ._~+/=-"
            )
        found.append((_digest(words[1]), Role[words[0].upper()]))
    if len(found) > TOKENS_MAX:
        raise ConfigError(f"{where}: has more than {TOKENS_MAX} tokens")
    return found


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()
