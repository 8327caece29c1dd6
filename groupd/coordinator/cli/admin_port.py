"""Requests of commands to the admin port of a daemon: over HTTP or TLS, with a token or without."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from groupd.coordinator.admin.admin_limits import TOKENS_VARIABLE
from groupd.coordinator.cli.command_errors import fail
from groupd.coordinator.cli.parse import UsageError, real_port

if TYPE_CHECKING:
    import ssl

DEFAULT_ADMIN = "127.0.0.1:9644"
TIMEOUT_S = 10.0
REDIRECT = 307
"""The status with which a node answers if another node of its cluster serves the group."""
_TOKEN_FILE_MAX = 65536
_NEXT = re.compile(r'<(/[^>]*)>; rel="next"')

Admin = Annotated[str, typer.Option(help="Admin address of the daemon, HOST:PORT.")]
AdminTokenFile = Annotated[
    Path | None,
    typer.Option(
        envvar="GROUPD_ADMIN_TOKEN_FILE",
        help="File whose first line ends with a token of the admin port; the daemon's own file "
        "will do.",
    ),
]
AdminCaFile = Annotated[
    Path | None,
    typer.Option(
        envvar="GROUPD_ADMIN_CA_FILE",
        help="The admin port speaks TLS; PEM file with the authorities that its certificate is "
        "checked with.",
    ),
]


class NoAnswer(Exception):
    """`str()` is one line. `status`: of an answer that is an error; 0 if there was no answer."""

    def __init__(self, line: str, status: int = 0) -> None:
        super().__init__(line)
        self.status = status


class AdminReply(Struct, frozen=True):
    status: int
    body: str
    headers: Mapping[str, str]


class AdminPort(Struct, frozen=True):
    """The address of the port, and what a command needs for access. `tls` None: plain HTTP."""

    address: str
    token: str | None
    tls: ssl.SSLContext | None

    def get(self, path: str, timeout_s: float = TIMEOUT_S, *, follow: bool = True) -> AdminReply:
        """`follow`: if the answer redirects to another node, ask that node. Raises NoAnswer."""
        reply = self._ask("GET", path, {}, timeout_s)
        if reply.status != REDIRECT or not follow:
            return reply
        url = urlsplit(reply.headers.get("Location", ""))
        if url.scheme != ("http" if self.tls is None else "https") or not url.netloc:
            raise NoAnswer(f"{self.address} sends to {url.geturl()}: ask there")
        path = url.path + (f"?{url.query}" if url.query else "")
        return replace(self, address=url.netloc).get(path, timeout_s, follow=False)

    def post(self, path: str) -> AdminReply:
        """Asks for a change that `path` describes. Raises NoAnswer."""
        # Web pages of other sites cannot send this content type unless the server allows it (CORS).
        return self._ask("POST", path, {"Content-Type": "application/json"}, TIMEOUT_S)

    def _ask(self, method: str, path: str, headers: dict[str, str], timeout_s: float) -> AdminReply:
        import http.client  # imported here, because `--help` needs no connections

        host, port = real_port(self.address, "--admin")
        connection = (
            http.client.HTTPConnection(host, port, timeout=timeout_s)
            if self.tls is None
            else http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self.tls)
        )
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, headers=headers)
            reply = connection.getresponse()
            body = reply.read().decode(errors="replace")
        except OSError as error:
            hint = "" if self.tls else _TLS_HINT * isinstance(error, ConnectionResetError)
            raise NoAnswer(f"no answer from {self.address}: {error}{hint}") from None
        except http.client.HTTPException:
            raise NoAnswer(
                f"{self.address} does not answer in HTTP: is it the admin port?"
            ) from None
        finally:
            connection.close()
        if reply.status == 401:
            body = f"{body.strip()}; see --admin-token-file"
        return AdminReply(reply.status, body, dict(reply.headers))


_TLS_HINT = " (if it speaks TLS, give --admin-ca-file)"


def admin_port(address: str, token_file: Path | None, ca_file: Path | None) -> AdminPort:
    """Returns the port at `address`, with its token and TLS. Without `token_file` the token is
    taken from the environment. Raises UsageError."""
    real_port(address, "--admin")
    return AdminPort(
        address,
        _token_of_environment() if token_file is None else _token(token_file),
        None if ca_file is None else _tls(ca_file),
    )


def _token_of_environment() -> str | None:
    """The first token that a daemon with this environment accepts: for commands in its
    container."""
    return _first_token(os.environ.get(TOKENS_VARIABLE, "").split(";"))


def _token(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_TOKEN_FILE_MAX).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise UsageError(f"--admin-token-file {path}: {reason}") from None
    token = _first_token(lines)
    if token is None:
        raise UsageError(f"--admin-token-file {path}: has no token")
    return token


def _first_token(lines: Iterable[str]) -> str | None:
    words = next((line.split() for line in lines if line.strip() and line[0] != "#"), [""])
    return words[-1] if words[-1] and words[-1].isascii() and words[-1].isprintable() else None


def _tls(path: Path) -> ssl.SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:  # also an ssl.SSLError
        reason = error.strerror if not isinstance(error, ssl.SSLError) else "no PEM certificates"
        raise UsageError(f"--admin-ca-file {path}: {reason}") from None


# Pages ------------------------------------------------------------------------------------------


def get(admin: AdminPort, path: str) -> Any:
    """Returns the daemon's answer as plain data. If there is none, or it is an error, the command
    prints one line and ends with exit code 1."""
    return next(get_pages(admin, path))


def get_pages(admin: AdminPort, path: str) -> Iterator[Any]:
    """As `get`, for an answer that may have several pages: yields them."""
    try:
        yield from pages(admin, path)
    except NoAnswer as error:
        fail(str(error))


def pages(admin: AdminPort, path: str, timeout_s: float = TIMEOUT_S) -> Iterator[Any]:
    """As `get_pages`, for a command that goes on without an answer. Raises NoAnswer."""
    following: str | None = path
    while following is not None:
        page, following = _page(admin, following, timeout_s)
        yield page


def nodes_of(admin: AdminPort) -> list[AdminPort]:
    """The admin ports of all nodes of the cluster; only `admin` itself if its daemon is in no
    cluster. If other machines cannot reach a node's admin port, a line is printed on stderr."""
    try:
        reply = admin.get("/cluster")
    except NoAnswer as error:
        fail(str(error))
    if reply.status != 200:
        return [admin]
    ports = []
    for node in json.decode(reply.body)["nodes"]:
        url = urlsplit(node["admin"])
        if url.netloc:
            ports.append(replace(admin, address=url.netloc))
        else:
            print(f"node {node['node']} is not asked: its admin port is local", file=sys.stderr)
    return ports


def _page(admin: AdminPort, path: str, timeout_s: float) -> tuple[Any, str | None]:
    """Returns the answer, and the path of the next page. Raises NoAnswer."""
    reply = admin.get(path, timeout_s)
    if reply.status != 200:
        raise NoAnswer(reply.body.strip(), reply.status)
    link = _NEXT.fullmatch(reply.headers.get("Link", ""))
    try:
        return json.decode(reply.body), None if link is None else link[1]
    except DecodeError:
        raise NoAnswer(
            f"{admin.address} does not answer as groupd does: is it its admin port?"
        ) from None
