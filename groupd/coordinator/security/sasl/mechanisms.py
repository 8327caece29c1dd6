"""The interface of SASL mechanisms: a mechanism takes the messages of a client and says how the
exchange goes on. Also PLAIN (RFC 4616): one message with user name and password
(`docs/spec/security.md#2.3`)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Protocol

from msgspec import Struct


class Challenge(Struct, frozen=True):
    """The exchange goes on. `token`: the message for the client."""

    token: bytes


class Authenticated(Struct, frozen=True):
    """The client is `user`. `token`: the last message for the client. `expires_ms`: when the proof
    ends, in wall-clock time; None: never."""

    token: bytes
    user: str
    expires_ms: int | None = None


class Rejected(Struct, frozen=True):
    """The client has proved nothing. `message`: the text for the client. `reason`: the text for the
    log; it never holds a part of the client's message. `guessed`: the user whose password, or a
    proof of it, the client has sent."""

    message: str
    reason: str
    guessed: str | None = None


SaslStep = Challenge | Authenticated | Rejected


class Later(Struct, frozen=True):
    """`work()` returns the step. It takes too long for the event loop and may run in a thread."""

    work: Callable[[], SaslStep]


class SaslExchange(Protocol):
    """One authentication of one client."""

    def respond(self, token: bytes) -> SaslStep | Later:
        """Takes the next message of the client. Not called again after the last step."""
        ...


class Mechanism(Protocol):
    """A mechanism. `name`: the name by which clients choose it."""

    name: str

    def begin(self) -> SaslExchange: ...


def invalid_credentials(mechanism: str, reason: str, guessed: str | None = None) -> Rejected:
    """The failure that looks the same whatever is wrong with the client's message, so that clients
    cannot find out which users there are (`docs/spec/security.md#2.2`)."""
    return Rejected(
        f"Authentication failed: invalid credentials for SASL mechanism {mechanism}",
        reason,
        guessed,
    )


def other_authorization_id(mechanism: str, guessed: str | None = None) -> Rejected:
    """The failure of a client that proved who it is, but wants to act as another user. `guessed`:
    see `Rejected`. It is given because this answer tells that the password is right."""
    message = "Authentication failed: the authorization id differs from the user name"
    reason = f"{mechanism} with the authorization id of somebody else"
    return Rejected(message, reason, guessed)


# PLAIN --------------------------------------------------------------------------------------

PLAIN = "PLAIN"
PLAIN_MESSAGE_MAX = 16 * 1024
"""The most bytes of a client's message."""

_PARTS = 3


class PlainMechanism:
    """`passwords`: by user. Only their hashes are kept, so all comparisons have the same length,
    and a dump of the memory shows no password."""

    name = PLAIN

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._hashes = {user: _hash(password) for user, password in passwords.items()}
        self._nobody = bytes(sha256().digest_size)

    def begin(self) -> PlainMechanism:
        """There is only one message, so the mechanism itself is the exchange."""
        return self

    def respond(self, token: bytes) -> SaslStep:
        if len(token) > PLAIN_MESSAGE_MAX:
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
        # For an unknown user the hash and the comparison take as long.
        same = hmac.compare_digest(_hash(password), self._hashes.get(user, self._nobody))
        if not (same and user in self._hashes):
            return Rejected(
                "Authentication failed: Invalid username or password",
                "unknown user or wrong password",
                user,
            )
        if authorization_id not in ("", user):
            return other_authorization_id(PLAIN, user)
        return Authenticated(b"", user)


def _hash(password: str) -> bytes:
    return sha256(password.encode()).digest()


def _malformed(what: str) -> Rejected:
    return Rejected(f"Authentication failed: malformed PLAIN message, {what}", f"malformed: {what}")
