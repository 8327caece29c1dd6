"""One blocking connection to a broker. How requests look: `groupd/protocol/wire/calls.py`."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from struct import Struct
from types import TracebackType
from typing import NamedTuple, TypeVar

from groupd.coordinator.failures import reason
from groupd.protocol.reader import READ_ERRORS, Reader, what_is_wrong
from groupd.protocol.wire.calls import (
    API_VERSIONS,
    Call,
    Versions,
    missing,
    read_versions,
    reply_reader,
    request_frame,
)
from groupd.protocol.writer import Writer

CLIENT_ID = "groupd-cli"
_LENGTH = Struct(">i")
_FRAME_BYTES_MAX = 256 * 1024 * 1024

_UNKNOWN_CA = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate that leads to no CA that is trusted."""

T = TypeVar("T")


class KafkaError(Exception):
    """The broker did not answer, or refused; `str()` is one line."""


class ClientSecurity(NamedTuple):
    """How a connection is protected. `tls` None: not at all. `login`: says who the client is, once
    the connection is open."""

    tls: ssl.SSLContext | None = None
    login: Callable[[BlockingConnection], None] | None = None


UNPROTECTED = ClientSecurity()


def _tls_hint(error: OSError) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "; does this port speak TLS?"
    unknown = error.verify_code in _UNKNOWN_CA
    return "; is its CA in ssl.truststore.location?" if unknown else ""


def first_that_answers(
    servers: Sequence[tuple[str, int]], connect: Callable[[tuple[str, int]], T]
) -> T:
    """What `connect` makes of the first server that lets it. Raises the KafkaError of the first
    one if none does."""
    refused: KafkaError | None = None
    for address in servers:
        try:
            return connect(address)
        except KafkaError as error:
            refused = refused or error
    assert refused is not None, "no server"
    raise refused


class BlockingConnection:
    """A connection, as a context manager; only one thread may use it. `calls`: the APIs that will
    be used."""

    def __init__(
        self,
        host: str,
        port: int,
        calls: tuple[Call, ...] = (),
        timeout_s: float = 30.0,
        security: ClientSecurity = UNPROTECTED,
    ) -> None:
        self.where = f"{host}:{port}"
        self._calls = calls
        self._login = security.login
        self._correlation = 0
        self._offered: Versions = {}
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise KafkaError(f"no Kafka broker at {self.where}: {reason(error)}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.tls is not None:
            self._socket = self._encrypted(security.tls, host)

    def _encrypted(self, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
        plain = self._socket
        try:
            return tls.wrap_socket(plain, server_hostname=host)
        except OSError as error:  # among them ssl.SSLError
            plain.close()
            why = f"{reason(error)}{_tls_hint(error)}"
            raise KafkaError(f"no TLS with {self.where}: {why}") from None

    def __enter__(self) -> BlockingConnection:
        try:
            self._check_versions()
            if self._login is not None:
                self._login(self)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, api: Call, write: Callable[[Writer], None], read: Callable[[Reader], T]) -> T:
        """Send the body that `write` writes and return what `read` makes of the answer."""
        self._correlation += 1
        frame = request_frame(api, self._correlation, CLIENT_ID, write)
        try:
            self._socket.sendall(frame)
            (size,) = _LENGTH.unpack(self._receive(4))
            if not 4 <= size <= _FRAME_BYTES_MAX:
                raise KafkaError(f"{self.where} does not speak Kafka's protocol")
            answer = self._receive(size)
        except OSError as error:
            why = f"{reason(error)}{self._hint(error)}"
            raise KafkaError(f"{self.where} did not answer {api.name}: {why}") from None
        try:
            return read(reply_reader(api, answer, self._correlation))
        except READ_ERRORS as error:
            raise KafkaError(
                f"{self.where}: answer to {api.name} not understood: {what_is_wrong(error)}"
            ) from None

    def offers(self, api: Call) -> bool:
        """Whether the broker has this API in this version; for what not every broker has."""
        return missing(self._offered, (api,)) is None

    def _hint(self, error: OSError) -> str:
        """What may be missing from `--command-config`. Brokers do not say why they close."""
        if isinstance(error, ssl.SSLError):
            return "; does the broker want a certificate (ssl.keystore.location)?"
        if not isinstance(error, ConnectionError) or self._login is not None:
            return ""
        return "; does the broker want TLS or a login (--command-config)?"

    def _receive(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            data = self._socket.recv(min(size - len(parts), 1 << 20))
            if not data:
                raise ConnectionResetError("the connection was closed")
            parts += data
        return bytes(parts)

    def _check_versions(self) -> None:
        self._offered = self.call(API_VERSIONS, lambda _: None, read_versions)
        if (api := missing(self._offered, self._calls)) is not None:
            raise KafkaError(f"{self.where} does not offer {api.name} v{api.version}")
