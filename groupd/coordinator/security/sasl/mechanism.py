"""What a SASL mechanism is: it takes the client's messages and says how the exchange goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct


class Challenge(Struct, frozen=True):
    """The exchange goes on. `token`: the message for the client."""

    token: bytes


class Authenticated(Struct, frozen=True):
    """The client is `user`. `token`: the last message for the client. `expires_ms`: when the proof
    ends, as wall-clock time; None: never."""

    token: bytes
    user: str
    expires_ms: int | None = None


class Rejected(Struct, frozen=True):
    """The client has proved nothing. `message`: what it is told. `reason`: what the log says; it
    never holds a part of the client's message. `guessed`: the user for whom it has sent a password,
    or the proof of one."""

    message: str
    reason: str
    guessed: str | None = None


Step = Challenge | Authenticated | Rejected


class Later(Struct, frozen=True):
    """`work()` gives the step. It takes too long for the event loop and may run in a thread."""

    work: Callable[[], Step]


class Exchange(Protocol):
    """One authentication of one client."""

    def respond(self, token: bytes) -> Step | Later:
        """Takes the next message of the client. Not called again after the last step."""
        ...


class Mechanism(Protocol):
    """`name` as clients ask for it."""

    name: str

    def begin(self) -> Exchange: ...


def invalid_credentials(mechanism: str, reason: str, guessed: str | None = None) -> Rejected:
    """The failure that looks the same whatever is wrong with the client's message, so that nobody
    learns which users there are (`docs/spec/security.md#2.2`)."""
    return Rejected(
        f"Authentication failed: invalid credentials for SASL mechanism {mechanism}",
        reason,
        guessed,
    )


def other_authorization_id(mechanism: str, guessed: str | None = None) -> Rejected:
    """The client proved who it is, but wants to act as somebody else. `guessed`: see `Rejected`;
    this answer tells that the password is right."""
    message = "Authentication failed: the authorization id differs from the user name"
    reason = f"{mechanism} with the authorization id of somebody else"
    return Rejected(message, reason, guessed)
