"""One connection to a Kafka broker: requests are sent at once, replies come back in their order."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from msgspec import Struct

from groupd.client.errors import (
    FAILED,
    REFUSED,
    TIMEOUT,
    CallFailed,
    LoginFailed,
    NotOffered,
    reason,
)
from groupd.client.sasl import SaslLogin, next_token
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest
from groupd.protocol.messages.sasl import (
    SaslAuthenticateReply,
    SaslAuthenticateRequest,
    SaslHandshakeReply,
    SaslHandshakeRequest,
)
from groupd.protocol.messages.secret import Secret
from groupd.protocol.wire.apis import API_BY_REQUEST
from groupd.protocol.wire.framing import FrameError, FrameSplitter
from groupd.protocol.wire.header import reply_offset, request_frame
from groupd.protocol.wire.registry import Api, MalformedReply

_API_VERSIONS = 18
_NO_VERSION = ApiRange(-1, 0, -1)
_UNKNOWN_CA = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate that was not issued by a trusted CA."""
_TIMED_OUT, _NOT_USED = "timed out", "not used any more"
_LOGIN_SHARE = 0.85
"""A connection is used for this part of the lifetime of its login."""


class Timers(Protocol):
    """The clock of a connection."""

    def monotonic_ms(self) -> int: ...

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> Any:
        """Calls `callback` at that time, unless `cancel()` of the result was called before."""
        ...


class ClientSecurity(Struct, frozen=True):
    """`tls()` returns the TLS context of a new connection; None: no encryption. `login` None: no
    login is needed."""

    tls: Callable[[], ssl.SSLContext] | None = None
    login: SaslLogin | None = None


UNPROTECTED = ClientSecurity()


class ConnectionLimits(Struct, frozen=True):
    """`frame_bytes`: the largest reply. `requests`, `request_bytes`: how many requests may be under
    way, and about how many bytes they may have. `connect_ms`: the time to connect, with TLS and
    login. `timeout_ms`: the time until a reply."""

    frame_bytes: int = 256 * 1024 * 1024
    requests: int = 100
    request_bytes: int = 8 * 1024 * 1024
    connect_ms: int = 30_000
    timeout_ms: int = 30_000


class _Sent(Struct, eq=False):
    """A request without a reply. `reply`: a future of the frame. After it is cancelled the
    connection still waits for the reply, but does not read it."""

    name: str
    correlation: int
    size: int
    due_ms: int
    reply: Any


class KafkaConnection(asyncio.Protocol):
    """`where`: the broker's name in texts. If a request has no reply in time, the connection is
    closed. A connection that was closed cannot be opened again."""

    def __init__(
        self,
        where: str,
        client_id: str,
        clock: Timers,
        security: ClientSecurity = UNPROTECTED,
        limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self.where = where
        self._client_id = client_id
        self._clock = clock
        self._security = security
        self._limits = limits
        self._splitter = FrameSplitter(limits.frame_bytes)
        self._offered = {_API_VERSIONS: ApiRange(_API_VERSIONS, 0, 0)}
        self._sent: deque[_Sent] = deque()
        self._size = 0
        """The bytes of all requests that are under way."""
        self._correlation = 0
        self._expires_ms: int | None = None
        """The connection is not used from this time on, as its login ends soon; None: never."""
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._ended: tuple[str, str, OSError | None] | None = None
        """The reason of the end, the outcome of calls, and the error that has caused it."""
        self._retired = False
        self._timer: Any = None

    @property
    def under_way(self) -> int:
        """The number of requests without a reply."""
        return len(self._sent)

    @property
    def usable(self) -> bool:
        """Whether further requests may be sent."""
        if self._transport is None or self._ended is not None or self._retired:
            return False
        return self._expires_ms is None or self._clock.monotonic_ms() < self._expires_ms

    def version_for(self, request_type: type, wanted: int | None = None) -> int:
        """Returns the version in which to send a request: `wanted`, or the highest version that
        both sides have. Raises NotOffered."""
        api = API_BY_REQUEST[request_type]
        theirs = self._offered.get(api.key, _NO_VERSION)
        version = min(api.max_version, theirs.max_version) if wanted is None else wanted
        if not max(api.min_version, theirs.min_version) <= version <= theirs.max_version:
            ours = f"{api.min_version}-{api.max_version}" if wanted is None else wanted
            raise NotOffered(f"{self.where} does not offer {api.name} v{ours}")
        return version

    async def call(self, request: Any, version: int | None = None) -> Any:
        """Sends a request and returns the reply; both are structs of `groupd.protocol.messages`.
        `version` None: the highest version that both sides have. Raises CallFailed, NotOffered."""
        api = API_BY_REQUEST[type(request)]
        version = self.version_for(api.request_type, version)
        frame = await self._send(api, version, request)
        try:
            return api.decode_reply(frame, reply_offset(frame, api, version), version)
        except MalformedReply as error:
            why = f"answer to {api.name} not understood: {error}"
            self.close(why)
            raise CallFailed(f"{self.where}: {why}") from None

    def _send(self, api: Api, version: int, request: Any) -> asyncio.Future[bytes]:
        if self._ended is not None or self._transport is None:
            raise self._failure(f"{self.where} did not answer {api.name}")
        if len(self._sent) >= self._limits.requests or self._size >= self._limits.request_bytes:
            raise CallFailed(f"{self.where}: too much is under way", REFUSED)
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        body = api.encode_request(request, version)
        frame = request_frame(api, version, self._correlation, self._client_id, body)
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        due_ms = self._clock.monotonic_ms() + self._limits.timeout_ms
        self._sent.append(_Sent(api.name, self._correlation, len(frame), due_ms, reply))
        self._size += len(frame)
        if self._timer is None:
            self._timer = self._clock.call_at(due_ms, self._check_late)
        self._transport.write(frame)
        return reply

    def retire(self) -> None:
        """Closes the connection once all replies are there."""
        self._retired = True
        if not self._sent:
            self.close(_NOT_USED)

    def close(self, why: str, outcome: str = FAILED, cause: OSError | None = None) -> None:
        """Closes the connection at once. Calls without a reply, and later calls, raise
        CallFailed."""
        if self._ended is not None:
            return
        self._ended = why, outcome, cause
        if self._timer is not None:
            self._timer.cancel()
        if self._opening is not None and not self._sent:
            self._opening.cancel()
        if self._transport is not None:
            self._transport.abort()
        sent, self._sent, self._size = self._sent, deque(), 0
        for one in sent:
            if not one.reply.done():
                one.reply.set_exception(self._failure(f"{self.where} did not answer {one.name}"))

    def _failure(self, what: str) -> CallFailed:
        why, outcome, cause = self._ended or ("not connected", FAILED, None)
        failed = CallFailed(f"{what}: {why}", outcome)
        failed.__cause__ = cause
        return failed

    def _check_late(self) -> None:
        self._timer = None
        if not self._sent:
            return
        due_ms = self._sent[0].due_ms
        if due_ms <= self._clock.monotonic_ms():
            self.close(_TIMED_OUT, TIMEOUT)
        else:
            self._timer = self._clock.call_at(due_ms, self._check_late)

    # Opening ------------------------------------------------------------------------------

    async def open(self, host: str, port: int) -> None:
        """Connects, asks for the broker's versions, and logs in. Raises CallFailed, LoginFailed."""
        no_broker = f"no Kafka broker at {self.where}"
        if self._ended is not None:
            raise self._failure(no_broker)
        self._opening = asyncio.get_running_loop().create_task(self._open(host, port))
        until_ms = self._clock.monotonic_ms() + self._limits.connect_ms
        timer = self._clock.call_at(until_ms, partial(self.close, _TIMED_OUT, TIMEOUT))
        try:
            await self._opening
        except BaseException as error:
            closed = self._ended is not None
            self.close("not connected")
            if closed and isinstance(error, asyncio.CancelledError):
                raise self._failure(no_broker) from None
            raise
        finally:
            timer.cancel()
            self._opening = None

    async def _open(self, host: str, port: int) -> None:
        tls = None if self._security.tls is None else self._security.tls()
        try:
            connected = await connected_socket(host, port)
        except OSError as error:
            raise CallFailed(f"no Kafka broker at {self.where}: {reason(error)}") from None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self, sock=connected, ssl=tls, server_hostname=host if tls else None
            )
        except OSError as error:  # also an ssl.SSLError
            why = f"{reason(error)}{_tls_hint(error)}"
            raise CallFailed(f"no TLS with {self.where}: {why}") from None
        versions: ApiVersionsReply = await self.call(ApiVersionsRequest(), 0)
        self._offered = {one.api_key: one for one in versions.api_keys}
        if self._security.login is not None:
            try:
                lifetime_ms = await self._log_in(self._security.login)
            except LoginFailed as error:
                raise LoginFailed(f"{self.where} {error}") from None
            if lifetime_ms > 0:
                now_ms = self._clock.monotonic_ms()
                self._expires_ms = now_ms + int(lifetime_ms * _LOGIN_SHARE)

    async def _log_in(self, login: SaslLogin) -> int:
        """Returns after how many milliseconds the login ends; 0 = never."""
        shaken: SaslHandshakeReply = await self.call(SaslHandshakeRequest(login.mechanism), 1)
        if shaken.error and not shaken.mechanisms:
            raise LoginFailed("has no logins: leave SASL_ out of security.protocol")
        if shaken.error:
            raise LoginFailed(
                f"does not know {login.mechanism}, but {', '.join(shaken.mechanisms)}"
            )
        tokens = login.tokens()
        token: bytes | None = next(tokens)
        lifetime_ms = 0
        while token is not None:
            answer: SaslAuthenticateReply = await self.call(SaslAuthenticateRequest(Secret(token)))
            if answer.error:
                why = answer.error_message or answer.error.name
                raise LoginFailed(f"refused the login: {why}")
            lifetime_ms = answer.session_lifetime_ms
            # In a thread, because hashing a password takes milliseconds.
            token = await asyncio.to_thread(next_token, tokens, answer.auth_bytes)
        return lifetime_ms

    # Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._ended is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._splitter.feed(data)
            while self._ended is None and (frame := self._splitter.next()) is not None:
                self._take(frame)
        except FrameError as error:
            self.close(f"it does not speak Kafka's protocol ({error})")
        if self._retired and not self._sent:
            self.close(_NOT_USED)

    def _take(self, frame: bytes) -> None:
        if not self._sent or frame[:4] != self._sent[0].correlation.to_bytes(4):
            self.close("replies out of order: is it a Kafka broker?")
            return
        one = self._sent.popleft()
        self._size -= one.size
        if not one.reply.done():
            one.reply.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        lost = ConnectionResetError("the connection was closed")
        cause = error if isinstance(error, OSError) else lost
        hint = "; does the broker want a certificate (ssl.keystore.location)?"
        self.close(reason(cause) + (hint if isinstance(cause, ssl.SSLError) else ""), FAILED, cause)


async def connected_socket(host: str, port: int) -> socket.socket:
    """Returns a socket connected to the first address of the host that answers. Raises OSError."""
    loop = asyncio.get_running_loop()
    failed: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        try:
            await loop.sock_connect(made, address)
        except OSError as error:
            made.close()
            failed = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failed or OSError("the host has no address")


def _tls_hint(error: OSError) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "; does this port speak TLS?"
    unknown = error.verify_code in _UNKNOWN_CA
    return "; is its CA in ssl.truststore.location?" if unknown else ""
