"""Who may do what on the admin port (`docs/spec/security.md#7`).

A client authenticates with a bearer token or with a TLS certificate; either stands for a role.
Without credentials it may read, if that is allowed for the address where the port listens.
Otherwise it gets 401 for every path, so that it does not learn which pages exist.

Where no credentials are set up, a client that may read may also change everything: move offsets,
drain nodes, and use `/control`, which exists only if it has been switched on.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from hashlib import sha256
from hmac import compare_digest
from math import ceil
from pathlib import Path

import structlog
from msgspec import Struct

from groupd.coordinator.admin.admin_limits import TOKENS_VARIABLE, is_loopback
from groupd.coordinator.admin.http_messages import Headers, HttpReply, text
from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.server.by_network import network_of
from groupd.coordinator.server.login_throttle import RecentFailures

log = structlog.get_logger("groupd.admin")

FAILURES_MAX = 10
"""How many wrong credentials of one address are logged and answered with 401 in a window. Further
ones are answered with 429."""
ADDRESSES_MAX = 1000
"""How many addresses with failures are remembered."""

TOKENS_MAX = 100
FILE_BYTES_MAX = 65536
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,1024}")
_GROUP_MAY_WRITE = 0o020


class Role(IntEnum):
    """What a client of the admin port may do. A larger role may also do what a smaller one may."""

    READ = 1
    ADMIN = 2


class Tokens:
    """The tokens of a file, of the environment (`more`), or of both. A token is a secret that its
    owner sends with every request, and stands for a role. Only the SHA-256 of a token is kept in
    memory. Raises ConfigError."""

    def __init__(self, path: Path | None, more: str = "") -> None:
        self._path = path
        self._more = _read_lines(more.split(";"), TOKENS_VARIABLE)
        self._state: object = None
        self._known = self._more
        if path is not None:
            self._state = _state(path)
            self._known = [*self._more, *_read_file(path)]

    def role(self, token: str) -> Role | None:
        """The role of a token; None if it is unknown. Takes the same time for every token. May read
        the file again, so call it in a thread."""
        self._refresh()
        wanted, found = _digest(token), None
        for digest, role in self._known:
            if compare_digest(digest, wanted):
                found = role
        return found

    def _refresh(self) -> None:
        """Reads the file again if it has changed. If the file cannot be used any more, the tokens
        stay as they are."""
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
    """Raises ConfigError if users other than the owner have rights to the file. If the owner is
    root, groupd's group may read it, too, because secrets that are mounted into a container look
    like that."""
    mode = stat.S_IMODE(file.st_mode)
    theirs = 0o007 | _GROUP_MAY_WRITE if file.st_uid == 0 and os.geteuid() != 0 else 0o077
    if mode & theirs:
        raise ConfigError(f"{where}: others may read it (mode {mode:04o}); use chmod 600")


def _read_lines(lines: Iterable[str], where: str) -> list[tuple[bytes, Role]]:
    """The digests of the tokens, with their roles. Raises ConfigError, whose text has the number of
    the line and nothing of its content."""
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


class Caller(Struct, frozen=True):
    """What a request says about its client. `authorization`: the header. `subject`: the subject of
    its certificate, if it has a verified one."""

    address: str
    authorization: str | None = None
    subject: str | None = None

    @property
    def name(self) -> str:
        """The client's name for the audit log. Tokens have no names."""
        if self.subject is not None:
            return self.subject
        return "admin port: anonymous" if self.authorization is None else "admin port: token"


class AdminAccess:
    """Decides which client may do what. `anonymous`: the role of clients without credentials.
    `roles`: the roles by subject of a certificate."""

    def __init__(
        self,
        anonymous: Role | None,
        tokens: Tokens | None,
        roles: Mapping[str, Role],
        *,
        metrics_open: bool = False,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics_open = metrics_open
        self._anonymous = anonymous
        self._tokens = tokens
        self._roles = roles
        self._failures = RecentFailures(FAILURES_MAX, ADDRESSES_MAX, elapsed)

    async def refusal(self, caller: Caller, needed: Role) -> HttpReply | None:
        """The refusal of a request that needs the role `needed`; None if it may be answered. A
        right token is always accepted, because behind a proxy all clients have one address. So the
        length of tokens keeps guessers out, not the limit (docs/threat-model.md)."""
        role = self._roles.get(caller.subject or "")
        if caller.authorization is not None:
            of_token = await self._role_of(caller.authorization)
            if of_token is None:
                return self._wrong(caller.address)
            role = max(of_token, role or of_token)
        if max(role or 0, self._anonymous or 0) >= needed:
            return None
        if role is None and caller.subject is None:
            return _unauthorized()
        log.warning("refused on the admin port", client=caller.address, subject=caller.subject)
        return text(f"needs the role {needed.name.lower()}", 403, _challenge(_TOO_LITTLE))

    def _wrong(self, address: str) -> HttpReply:
        network = network_of(address)
        wait_s = self._failures.wait_s(network)
        if wait_s:
            retry = (("Retry-After", str(ceil(wait_s))),)
            return text("too many wrong credentials from this address", 429, retry)
        self._failures.add(network)
        log.warning("wrong credentials on the admin port", client=address)
        return _unauthorized(', error="invalid_token"')

    async def _role_of(self, authorization: str) -> Role | None:
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or self._tokens is None:
            return None
        return await asyncio.to_thread(self._tokens.role, token.strip())


def admin_access(settings: AdminSettings, host: str) -> AdminAccess:
    """The access that the settings give to a port on the address `host`. Raises ConfigError if no
    client could come in, and if every client could although no setting says so."""
    path, more = settings.admin_token_file, os.environ.get(TOKENS_VARIABLE, "")
    tokens = Tokens(Path(path) if path else None, more) if path or more else None
    roles = roles_by_subject(settings.admin_ssl_roles)
    asked = settings.admin_authentication
    closed = asked == "always" or (asked == "remote" and not is_loopback(host))
    credentials = tokens is not None or bool(roles)
    if closed and not credentials:
        raise ConfigError(
            f"--admin {host}: other machines reach it, so it needs credentials: set "
            "groupd.admin.token.file or groupd.admin.ssl.roles, or groupd.admin.authentication=none"
            if asked == "remote"
            else "groupd.admin.authentication=always: set groupd.admin.token.file or "
            "groupd.admin.ssl.roles"
        )
    anonymous = Role.READ if credentials else Role.ADMIN
    if not credentials and not is_loopback(host):  # a setting says that clients need no credentials
        log.warning(
            "everybody who reaches the admin port may read and change everything there",
            admin=host,
            authentication=asked,
        )
    return AdminAccess(
        None if closed else anonymous,
        tokens,
        roles,
        metrics_open=settings.admin_metrics_open,
    )


def roles_by_subject(given: str) -> dict[str, Role]:
    """The roles by subject, from "admin:CN=ops,O=Acme;read:CN=prometheus". Raises ConfigError."""
    found = {}
    for entry in filter(None, map(str.strip, given.split(";"))):
        role, _, subject = entry.partition(":")
        if role.upper() not in Role.__members__ or not subject:
            raise ConfigError(
                f"groupd.admin.ssl.roles={entry}: must be read:SUBJECT or admin:SUBJECT"
            )
        found[subject] = Role[role.upper()]
    return found


_TOO_LITTLE = ', error="insufficient_scope"'


def _unauthorized(error: str = "") -> HttpReply:
    return text("needs credentials: a bearer token or a certificate", 401, _challenge(error))


def _challenge(error: str) -> Headers:
    return (("WWW-Authenticate", f'Bearer realm="groupd"{error}'),)
