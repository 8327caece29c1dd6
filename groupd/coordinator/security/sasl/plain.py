"""SASL/PLAIN (RFC 4616): one message with user name and password (`docs/spec/security.md#2.3`)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256

from groupd.coordinator.security.sasl.mechanism import (
    Authenticated,
    Rejected,
    Step,
    other_authorization_id,
)

NAME = "PLAIN"
MESSAGE_MAX = 16 * 1024
"""Bytes of a client's message."""

_PARTS = 3


class PlainMechanism:
    """`passwords` by user. It keeps only their hashes: so all comparisons are of one length, and a
    dump of the memory shows no password."""

    name = NAME

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._hashes = {user: _hash(password) for user, password in passwords.items()}
        self._nobody = bytes(sha256().digest_size)

    def begin(self) -> PlainMechanism:
        """There is only one message, so an exchange has no state."""
        return self

    def respond(self, token: bytes) -> Step:
        if len(token) > MESSAGE_MAX:
            return _malformed("too long")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            return _malformed("not UTF-8")
        if len(parts) != _PARTS:
            return _malformed("not three parts")
        authorization_id, user, password = parts
        if not (user and password):
            return _malformed("no user name or no password")
        # An unknown user costs the same hash and the same comparison.
        same = hmac.compare_digest(_hash(password), self._hashes.get(user, self._nobody))
        if not (same and user in self._hashes):
            return Rejected(
                "Authentication failed: Invalid username or password",
                "unknown user or wrong password",
                user,
            )
        if authorization_id not in ("", user):
            return other_authorization_id(NAME, user)
        return Authenticated(b"", user)


def _hash(password: str) -> bytes:
    return sha256(password.encode()).digest()


def _malformed(what: str) -> Rejected:
    return Rejected(f"Authentication failed: malformed PLAIN message, {what}", f"malformed: {what}")
