"""TLS on the admin port.

A connection is accepted first and counted, and only then makes its handshake, so that handshakes
which never end have a limit like requests which never come.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import structlog

from groupd.coordinator.admin_settings import AdminSettings
from groupd.coordinator.settings import ConfigError

log = structlog.get_logger("groupd.admin")

HANDSHAKE_TIMEOUT_S = 10.0
_SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_PREFIX = "groupd.admin.ssl."
_VERIFY = {"requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class AdminTls:
    """The certificate, key and authorities; read again when a file has changed. Raises
    ConfigError."""

    def __init__(self, settings: AdminSettings) -> None:
        self._settings = settings
        self._state = self._files()
        self._context = server_context(settings)

    def context(self) -> ssl.SSLContext:
        """For the next connection. May read files, so it belongs on a thread. Files that have
        become bad leave the certificate as it is."""
        if (state := self._files()) != self._state:
            self._state = state
            try:
                self._context = server_context(self._settings)
            except ConfigError as error:
                log.error("the certificate of the admin port stays as it was", reason=str(error))
            else:
                log.info("the certificate of the admin port was read again")
        return self._context

    def _files(self) -> object:
        places = (
            self._settings.admin_ssl_keystore_location,
            self._settings.admin_ssl_truststore_location,
        )
        return [_state(Path(place)) for place in places if place]


def _state(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def server_context(settings: AdminSettings) -> ssl.SSLContext:
    """Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    keystore = settings.admin_ssl_keystore_location
    try:
        # Always a password: without one OpenSSL asks for it at the terminal.
        context.load_cert_chain(keystore, password=settings.admin_ssl_key_password)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{_PREFIX}keystore.location={keystore}: {_reason(error)}") from None
    truststore = settings.admin_ssl_truststore_location
    if truststore:
        try:
            context.load_verify_locations(truststore)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{_PREFIX}truststore.location={truststore}: {_reason(error)}"
            ) from None
    context.verify_mode = _VERIFY.get(settings.admin_ssl_client_auth, ssl.CERT_NONE)
    return context


def _reason(error: Exception) -> str:
    """What went wrong, in words that hold nothing of the file."""
    if isinstance(error, ssl.SSLError):
        return error.reason or "no PEM with a certificate and its key"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "no PEM with a certificate and its key"


def admin_tls(settings: AdminSettings) -> AdminTls | None:
    """None: the port speaks plain HTTP. Raises ConfigError."""
    asks = settings.admin_ssl_client_auth != "none"
    if not settings.admin_ssl_keystore_location:
        if asks or settings.admin_ssl_roles:
            raise ConfigError(
                f"{_PREFIX}client.auth, {_PREFIX}roles: only with TLS; set "
                f"{_PREFIX}keystore.location"
            )
        return None
    if asks and not settings.admin_ssl_truststore_location:
        raise ConfigError(
            f"{_PREFIX}client.auth={settings.admin_ssl_client_auth}: set "
            f"{_PREFIX}truststore.location, which says whose certificates count"
        )
    if settings.admin_ssl_roles and not asks:
        raise ConfigError(
            f"{_PREFIX}roles: only with {_PREFIX}client.auth=requested or required; otherwise "
            "nobody shows a certificate"
        )
    return AdminTls(settings)


class Accepted(asyncio.Protocol):
    """Takes the socket of a new connection away from its transport before anything is read from it:
    what comes before TLS must not count as if it had come through it. `serve(socket)` gets it."""

    def __init__(self, serve: Callable[[socket.socket], object]) -> None:
        self._serve = serve

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        number = os.dup(transport.get_extra_info("socket").fileno())
        # Closes only its own descriptor: for the client nothing has happened.
        cast(asyncio.Transport, transport).abort()
        self._serve(socket.socket(fileno=number))


async def streams(
    accepted: socket.socket,
    context: ssl.SSLContext | None,
    limit: int,
    sending_timeout_s: float,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The streams of a connection, after its handshake if there is a `context`. `limit`: how many
    bytes are read ahead. `sending_timeout_s`: how long a TLS connection that is closed may take to
    send what is left. Raises OSError and TimeoutError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    times: dict[str, Any] = {}
    if context is not None:
        times = {
            "ssl_handshake_timeout": HANDSHAKE_TIMEOUT_S,
            "ssl_shutdown_timeout": sending_timeout_s,
        }
    transport, protocol = await loop.connect_accepted_socket(
        lambda: asyncio.StreamReaderProtocol(reader), accepted, ssl=context, **times
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def subject_of(writer: asyncio.StreamWriter) -> str | None:
    """The subject of the client's certificate, most specific part first, as in
    "CN=ops,O=Acme,C=DE"; None without a certificate that has been verified."""
    certificate = writer.get_extra_info("peercert")
    if not certificate:
        return None
    parts = reversed(certificate["subject"])
    return ",".join("+".join(_attribute(*one) for one in part) for part in parts)


def _attribute(name: str, value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;]|^[# ]| $)', r"\\\1", value)
    return f"{_SHORT_NAMES.get(name, name)}={escaped}"
