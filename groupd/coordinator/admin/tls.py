"""TLS on the admin port. A connection is first accepted and counted, and makes its handshake only
then. So handshakes that never end have a limit, like requests that never come."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.security.listeners import Listener, SecurityProtocol

log = structlog.get_logger("groupd.admin")

HANDSHAKE_TIMEOUT_S = 10.0
_PREFIX = "groupd.admin.ssl."
_LISTENER = Listener("ADMIN", SecurityProtocol.SSL, "", 0)


class AdminTls:
    """The TLS of a listener (`groupd.coordinator.security.tls`) with the settings of the admin
    port. So the same rules hold, also when files have changed and are read again. Raises
    ConfigError."""

    def __init__(self, config: CoordinatorConfig) -> None:
        # Imported here and below, because many admin ports speak plain HTTP.
        from groupd.coordinator.security.tls import ListenerTls

        try:
            self._tls = ListenerTls(_listener_config(config), _LISTENER)
        except ConfigError as error:
            text = str(error)
            raise ConfigError(f"groupd.admin.{text}" if text.startswith("ssl.") else text) from None

    def context(self) -> ssl.SSLContext:
        """The context for the next connection. May read files, so call it in a thread. If the files
        cannot be used any more, the certificate stays as it is."""
        self._tls.look()
        return self._tls.context


def _listener_config(config: CoordinatorConfig) -> CoordinatorConfig:
    """The settings that a listener with the certificates of the admin port would have."""
    return replace(
        config,
        listener_overrides=(),
        ssl_keystore_location=config.admin_ssl_keystore_location,
        ssl_keystore_certificate_chain="",
        ssl_keystore_key="",
        ssl_key_password=config.admin_ssl_key_password,
        ssl_truststore_location=config.admin_ssl_truststore_location,
        ssl_truststore_certificates="",
        ssl_client_auth=config.admin_ssl_client_auth,
        ssl_principal_mapping_rules="DEFAULT",
    )


def admin_tls(config: CoordinatorConfig) -> AdminTls | None:
    """The TLS of the settings; None: the port speaks plain HTTP. Raises ConfigError."""
    asks = config.admin_ssl_client_auth != "none"
    if not config.admin_ssl_keystore_location:
        if asks or config.admin_ssl_roles:
            raise ConfigError(
                f"{_PREFIX}client.auth, {_PREFIX}roles: only with TLS; set "
                f"{_PREFIX}keystore.location"
            )
        return None
    if asks and not config.admin_ssl_truststore_location:
        raise ConfigError(
            f"{_PREFIX}client.auth={config.admin_ssl_client_auth}: set "
            f"{_PREFIX}truststore.location, which says whose certificates count"
        )
    if config.admin_ssl_roles and not asks:
        raise ConfigError(
            f"{_PREFIX}roles: only with {_PREFIX}client.auth=requested or required; otherwise "
            "nobody shows a certificate"
        )
    return AdminTls(config)


class Accepted(asyncio.Protocol):
    """Takes the socket of a new connection away from its transport before anything is read from it.
    Bytes that come before TLS must not count as if they had come through it. `serve(socket)` is
    called with the socket."""

    def __init__(self, serve: Callable[[socket.socket], object]) -> None:
        self._serve = serve

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        number = os.dup(transport.get_extra_info("socket").fileno())
        # This closes only the transport's own descriptor: the client notices nothing.
        cast(asyncio.Transport, transport).abort()
        self._serve(socket.socket(fileno=number))


async def streams(
    accepted: socket.socket,
    context: ssl.SSLContext | None,
    limit: int,
    sending_timeout_s: float,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The streams of a connection, after its handshake if there is a `context`. `limit`: how many
    bytes are read ahead. `sending_timeout_s`: how long a TLS connection may take after its close to
    send the rest. Raises OSError and TimeoutError."""
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
    """The subject of the client's certificate, as `groupd.coordinator.security.certificates` writes
    it; None if there is no verified certificate, or if its subject cannot be read."""
    connection = writer.get_extra_info("ssl_object")
    certificate = None if connection is None else connection.getpeercert(True)
    if not certificate:
        return None
    from groupd.coordinator.security import certificates

    try:
        return certificates.subject_of(certificate)
    except ValueError as error:
        log.warning("the subject of a certificate cannot be read", reason=str(error))
        return None
