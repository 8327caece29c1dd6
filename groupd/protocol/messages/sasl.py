"""The login of a client: SaslHandshake (17), SaslAuthenticate (36)."""

from __future__ import annotations

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.secret import Secret


class SaslHandshakeRequest(Struct, frozen=True):
    mechanism: str


class SaslHandshakeReply(Struct, frozen=True):
    """`mechanisms`: the ones that the server has enabled."""

    error: ErrorCode = ErrorCode.NONE
    mechanisms: tuple[str, ...] = ()


class SaslAuthenticateRequest(Struct, frozen=True):
    """`auth_bytes`: one message of the mechanism, sent by the client."""

    auth_bytes: Secret


class SaslAuthenticateReply(Struct, frozen=True):
    """`auth_bytes`: the server's message of the mechanism. `session_lifetime_ms`: after this time
    the client must authenticate again (KIP-368); 0 = never."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    auth_bytes: Secret = Secret()
    session_lifetime_ms: int = 0
