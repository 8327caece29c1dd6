"""The exchange by which a client proves who it is, on one connection: frames in, actions out
(`docs/spec/security.md#2.2`). It is pure: it writes nothing and waits for nothing.

A re-authentication on an open connection has the same type (KIP-368, `docs/spec/security.md#2.5`);
it knows already who the client is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.types import Instant
from groupd.coordinator.security.sasl.mechanisms import (
    Authenticated,
    Challenge,
    Later,
    Mechanism,
    Rejected,
    SaslExchange,
    SaslStep,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import ApiVersionsReply, ApiVersionsRequest
from groupd.protocol.messages.sasl import (
    SaslAuthenticateReply,
    SaslAuthenticateRequest,
    SaslHandshakeReply,
    SaslHandshakeRequest,
)
from groupd.protocol.messages.secret import Secret
from groupd.protocol.wire.api.api_versions import unsupported_version_body
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import (
    RequestHeader,
    parse_request_header,
    reply_frame,
)
from groupd.protocol.wire.registry import Api, MalformedRequest

TOKENS_MAX = 8
"""The most messages of a client in one authentication. Every mechanism needs at most three; with
OAUTHBEARER a client could otherwise try tokens for ever."""

ITEMS_MAX = 4000
"""The most items of a request before the authentication. More would take too long to decode."""

_API_VERSIONS = 18
_NOT_YET = "The client must authenticate first"


class SaslIdentity(Struct, frozen=True):
    """Who a client has proved to be. `lifetime_ms`: how long that holds from now on; None: for
    ever. `may_repeat`: the client learns the lifetime, so it can authenticate again in time."""

    principal: str
    mechanism: str
    lifetime_ms: int | None
    may_repeat: bool


class Proceed(Struct, frozen=True):
    """Send `frame`; the exchange goes on."""

    frame: bytes | bytearray


class Complete(Struct, frozen=True):
    """Send `frame`; the client is `identity`."""

    frame: bytes | bytearray
    identity: SaslIdentity


class Refuse(Struct, frozen=True):
    """The authentication has failed: after a delay, send `frame`, if there is one, then close.
    `reason`: for the log."""

    frame: bytes | bytearray | None
    reason: str


class Drop(Struct, frozen=True):
    """Close the connection now, without a reply."""

    reason: str


class InThread(Struct, frozen=True):
    """Run `work` in a thread and give the result to `Authenticator.judged`. `size`: the bytes that
    the work holds."""

    work: Callable[[], SaslStep]
    size: int


class Claimed(Struct, frozen=True):
    """The client has sent the password of `user`, right or wrong, and has no answer yet. Give
    `step` to `Authenticator.judged`, now or later."""

    user: str
    step: SaslStep


SaslAction = Proceed | Complete | Refuse | Drop | InThread | Claimed

AnswerVersions = Callable[[int, ApiVersionsRequest], ApiVersionsReply]
"""Takes the version and the request, returns the reply. A reply with an error leaves the exchange
where it is."""


class Enabled(Struct, frozen=True):
    """A mechanism that is enabled on a listener. `max_reauth_ms`: `connections.max.reauth.ms`."""

    mechanism: Mechanism
    max_reauth_ms: int = 0


class _State(Enum):
    BEGIN = auto()
    """ApiVersions or SaslHandshake is expected."""
    HANDSHAKE = auto()
    """SaslHandshake is expected; ApiVersions has been answered."""
    WRAPPED = auto()
    """Messages of the mechanism are expected in SaslAuthenticate."""
    RAW = auto()
    """Messages of the mechanism are expected as they are: frames have no header."""
    ENDED = auto()


class Authenticator:
    """One authentication. `enabled`: the mechanisms of the listener by name, in order. `before`:
    who the client is, if this is a re-authentication, which begins with SaslHandshake."""

    def __init__(
        self,
        enabled: Mapping[str, Enabled],
        versions: AnswerVersions,
        now: Callable[[], Instant],
        before: SaslIdentity | None = None,
    ) -> None:
        self._enabled = enabled
        self._versions = versions
        self._now = now
        self._before = before
        self._state = _State.BEGIN if before is None else _State.HANDSHAKE
        self._exchange: SaslExchange
        self.tokens = 0
        """How many messages of the mechanism the client has sent."""
        self._header: RequestHeader
        """The header of the request under way."""
        self.mechanism = ""
        """The mechanism that the client has chosen; "" before that."""
        self.software: tuple[str, str] | None = None
        """The name and version of the client's library, once the client has sent them."""

    def frame(self, frame: bytes) -> SaslAction:
        """Takes the client's next frame, without its length field. Not called while work is under
        way, nor after Complete, Refuse or Drop."""
        if self._state is _State.RAW:
            return self._token(frame)
        try:
            header = parse_request_header(frame, API_BY_KEY)
            return self._request(frame, header)
        except MalformedRequest:
            return self._drop("malformed request")

    def judged(self, step: SaslStep) -> SaslAction:
        """Takes the result of `InThread`, or the step of `Claimed`."""
        match step:
            case Challenge(token):
                return Proceed(self._with_token(token, 0))
            case Authenticated():
                return self._succeeded(step)
            case Rejected():
                return self._fail(step.message, step.reason)

    # Requests -----------------------------------------------------------------------------

    def _request(self, frame: bytes, header: RequestHeader) -> SaslAction:
        self._header = header
        api = API_BY_KEY.get(header.api_key)
        served = api is not None and api.min_version <= header.api_version <= api.max_version
        if header.api_key == _API_VERSIONS and self._state is _State.BEGIN and not served:
            # The client may ask again, with a version that the reply names.
            return Proceed(
                reply_frame(header.correlation_id, unsupported_version_body(), tagged=False)
            )
        if api is None or not served:
            return self._drop(f"unsupported API {header.api_key} v{header.api_version}")
        allowed = self._allowed()
        if api.request_type not in allowed and self._state is not _State.WRAPPED:
            return self._drop(f"{api.name} before the authentication")
        request = api.decode(frame, header.body_offset, header.api_version, ITEMS_MAX)
        if api.request_type not in allowed:
            refusal = api.failure(request, ErrorCode.ILLEGAL_SASL_STATE, _NOT_YET)
            # Produce with acks=0 has no reply.
            told = None if refusal is None else self._encoded(api, refusal)
            return self._refuse(told, f"{api.name} during authentication")
        match request:
            case ApiVersionsRequest():
                return self._api_versions(api, request)
            case SaslHandshakeRequest():
                return self._handshake(api, request.mechanism)
            case SaslAuthenticateRequest():
                return self._token(bytes(request.auth_bytes))
        raise AssertionError(request)

    def _allowed(self) -> tuple[type, ...]:
        match self._state:
            case _State.BEGIN:
                return ApiVersionsRequest, SaslHandshakeRequest
            case _State.HANDSHAKE:
                return (SaslHandshakeRequest,)
            case _:
                return (SaslAuthenticateRequest,)

    def _api_versions(self, api: Api, request: ApiVersionsRequest) -> SaslAction:
        reply = self._versions(self._header.api_version, request)
        if reply.error == ErrorCode.NONE:
            self._state = _State.HANDSHAKE
            self.software = request.client_software_name, request.client_software_version
        return Proceed(self._encoded(api, reply))

    def _handshake(self, api: Api, name: str) -> SaslAction:
        mechanisms, chosen = tuple(self._enabled), self._enabled.get(name)
        if chosen is None:
            reply = SaslHandshakeReply(ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms)
            return self._refuse(self._encoded(api, reply), "mechanism that is not enabled")
        self.mechanism = name
        self._exchange = chosen.mechanism.begin()
        self._state = _State.WRAPPED if self._header.api_version else _State.RAW
        return Proceed(self._encoded(api, SaslHandshakeReply(ErrorCode.NONE, mechanisms)))

    # Messages of the mechanism ------------------------------------------------------------

    def _token(self, token: bytes) -> SaslAction:
        if self._before is not None and self._before.mechanism != self.mechanism:
            return self._drop("re-authentication by another mechanism")
        self.tokens += 1
        if self.tokens > TOKENS_MAX:
            return self._fail("Authentication failed: too many messages", "too many messages")
        step = self._exchange.respond(token)
        match step:
            case Later():
                return InThread(step.work, len(token))
            case Authenticated(user=user) | Rejected(guessed=str(user)):
                return Claimed(user, step)
        return self.judged(step)

    def _succeeded(self, success: Authenticated) -> SaslAction:
        principal, before = f"User:{success.user}", self._before
        if before is not None and before.principal != principal:
            return self._fail(
                f"Authentication failed: the principal cannot change from {before.principal} to "
                f"{principal} during re-authentication",
                "re-authentication as somebody else",
            )
        lifetime_ms = self._lifetime_ms(success.expires_ms)
        wrapped = self._state is _State.WRAPPED
        told = wrapped and self._header.api_version >= 1
        frame = self._with_token(success.token, lifetime_ms or 0)
        self._state = _State.ENDED
        return Complete(frame, SaslIdentity(principal, self.mechanism, lifetime_ms, told))

    def _lifetime_ms(self, expires_ms: int | None) -> int | None:
        """The shortest of the lifetimes that are set."""
        ends = [self._enabled[self.mechanism].max_reauth_ms or None]
        if expires_ms is not None:
            ends.append(max(0, expires_ms - self._now().wall_ms))
        known = [end for end in ends if end is not None]
        return min(known) if known else None

    # The end ------------------------------------------------------------------------------

    def _fail(self, message: str, reason: str) -> SaslAction:
        """Refuses the login. A client whose frames have no header cannot get `message`."""
        if self._state is _State.RAW:
            return self._refuse(None, reason)
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        reply = SaslAuthenticateReply(code, message)
        api = API_BY_KEY[self._header.api_key]
        return self._refuse(self._encoded(api, reply), reason)

    def _refuse(self, frame: bytes | bytearray | None, reason: str) -> Refuse:
        self._state = _State.ENDED
        return Refuse(frame, reason)

    def _drop(self, reason: str) -> Drop:
        self._state = _State.ENDED
        return Drop(reason)

    # Replies ------------------------------------------------------------------------------

    def _with_token(self, token: bytes, lifetime_ms: int) -> bytes | bytearray:
        if self._state is _State.RAW:
            return len(token).to_bytes(4, "big") + token
        reply = SaslAuthenticateReply(auth_bytes=Secret(token), session_lifetime_ms=lifetime_ms)
        return self._encoded(API_BY_KEY[self._header.api_key], reply)

    def _encoded(self, api: Api, reply: Any) -> bytes | bytearray:
        header = self._header
        body = api.encode(reply, header.api_version)
        tagged = header.api_version >= api.tagged_replies_from
        return reply_frame(header.correlation_id, body, tagged=tagged)
