"""Which security request is answered by what."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.types import DataHandler, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest


def security_handlers() -> Mapping[type, DataHandler]:
    """Type of the request -> handler."""
    return {
        SaslHandshakeRequest: too_late,
        SaslAuthenticateRequest: too_late,
    }


async def too_late(context: RequestContext, request: object) -> None:
    """A connection that knows who its client is answers like this, also on a listener without SASL
    (`docs/spec/security.md#2.2`). Raises ApiError."""
    raise ApiError(
        ErrorCode.ILLEGAL_SASL_STATE,
        "No authentication is under way here: the client is known, or the listener has no SASL.",
    )
