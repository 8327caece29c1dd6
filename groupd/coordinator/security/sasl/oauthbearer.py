"""SASL/OAUTHBEARER (RFC 7628; `docs/spec/security.md#2.3`): the client brings a token. A bad token
is answered with a JSON text and without an error; the error comes after the client's next message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import structlog

from groupd.coordinator.security.sasl.mechanisms import (
    Authenticated,
    Challenge,
    Later,
    Rejected,
    SaslStep,
    invalid_credentials,
    other_authorization_id,
)
from groupd.coordinator.security.sasl.tokens import InvalidToken, Judged

NAME = "OAUTHBEARER"
_ACKNOWLEDGED = b"\x01"
_REFUSED = b'{"status":"invalid_token"}'

MESSAGE_MAX = 64 * 1024
"""The most bytes of a client's message. Identity providers give tokens of one or two thousand
bytes. Such tokens are made for HTTP servers, and few of these take headers of more than 8 to 64
thousand."""

PAIRS_MAX = 100
"""The most key=value pairs in a message: the token and extensions. Most clients send no
extensions."""

_HEAD = re.compile(r"n,(?:a=((?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D){1,4096}))?,\x01")
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]*")
_AUTH = re.compile(r"([A-Za-z0-9_]+) +([-_.A-Za-z0-9]+)")

log = structlog.get_logger("groupd.sasl")


class OAuthBearerMechanism:
    """The mechanism. `judge(token)` returns what a valid JSON web token says, or raises
    InvalidToken. It runs in a thread."""

    name = NAME

    def __init__(self, judge: Callable[[str], Judged]) -> None:
        self._judge = judge

    def begin(self) -> OAuthBearerExchange:
        return OAuthBearerExchange(self._judge)


class OAuthBearerExchange:
    def __init__(self, judge: Callable[[str], Judged]) -> None:
        self._judge = judge
        self._refused = False
        """Whether the client has been sent the JSON text."""

    def respond(self, token: bytes) -> SaslStep | Later:
        if self._refused and token == _ACKNOWLEDGED:
            return Rejected(_REFUSED.decode(), "invalid token")
        self._refused = False
        if len(token) > MESSAGE_MAX:
            return invalid_credentials(NAME, "message too long")
        return Later(partial(self._look_at, token))

    def _look_at(self, message: bytes) -> SaslStep:
        try:
            authorization_id, token = _parse(message.decode())
        except ValueError:  # decoding raises it, too
            return invalid_credentials(NAME, "malformed message")
        try:
            judged = self._judge(token)
        except InvalidToken as error:
            log.warning("token refused", reason=str(error))
            self._refused = True
            return Challenge(_REFUSED)
        if authorization_id not in ("", judged.user):
            return other_authorization_id(NAME)
        return Authenticated(b"", judged.user, judged.expires_ms)


def _parse(message: str) -> tuple[str, str]:
    """The authorization id and the JSON web token of a message. Raises ValueError."""
    head = _HEAD.match(message)
    if head is None or not message.endswith("\x01\x01"):
        raise ValueError("no header, or no end")
    pairs = message[head.end() : -2].split("\x01", PAIRS_MAX)
    if len(pairs) > PAIRS_MAX:
        raise ValueError("too many pairs")
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and _KEY.fullmatch(key) and _VALUE.fullmatch(value)) or key in values:
            raise ValueError("not key=value")
        values[key] = value
    auth = _AUTH.fullmatch(values.get("auth", ""))
    if auth is None or auth[1].lower() != "bearer":
        raise ValueError("no bearer token")
    authorization_id = (head[1] or "").replace("=2C", ",").replace("=3D", "=")
    return authorization_id, auth[2]
