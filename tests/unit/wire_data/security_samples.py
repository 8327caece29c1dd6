"""Requests and replies about who asks, as in `data_samples`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import sasl
from groupd.protocol.messages.secret import Secret
from tests.unit.wire_data.data_samples import INT64_MAX, NAME, Sample, since


def sasl_handshake(_: int) -> Sample:
    return sasl.SaslHandshakeRequest(NAME), {"mechanism": NAME}


def sasl_handshake_reply(_: int) -> Sample:
    message = sasl.SaslHandshakeReply(ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN", NAME))
    return message, {"error_code": 33, "mechanisms": ("PLAIN", NAME)}


def sasl_authenticate(_: int) -> Sample:
    return sasl.SaslAuthenticateRequest(Secret(b"\x00a\x00\xff")), {"auth_bytes": b"\x00a\x00\xff"}


def sasl_authenticate_reply(version: int) -> Sample:
    message = sasl.SaslAuthenticateReply(
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "not yöu",
        Secret(b"v=\xff"),
        since(version, 1, INT64_MAX // 2**30, 0),
    )
    return message, {
        "error_code": 58,
        "error_message": "not yöu",
        "auth_bytes": b"v=\xff",
        "session_lifetime_ms": INT64_MAX // 2**30,
    }
