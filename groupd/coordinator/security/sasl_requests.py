"""SaslHandshake (17) and SaslAuthenticate (36) on a connection that knows who its client is.

While a client still has to say who it is, they go to the authenticator of its connection instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.types import DataHandler, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest


async def no_login_here(context: RequestContext, request: object) -> None:
    """Refuses a login: the client is known already, or the listener has no SASL, so that nobody
    logs in there (`docs/spec/security.md#2.2`). Raises ApiError."""
    raise ApiError(
        ErrorCode.ILLEGAL_SASL_STATE,
        "No authentication is under way here: the client is known, or the listener has no SASL.",
    )


SASL_HANDLERS: Mapping[type, DataHandler] = {
    SaslHandshakeRequest: no_login_here,
    SaslAuthenticateRequest: no_login_here,
}
