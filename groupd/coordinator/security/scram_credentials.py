"""What is stored instead of a SCRAM user's password (RFC 5802, RFC 7677;
`docs/spec/security.md#2.3`).

The client, or the tool that makes a user, hashes the password many times with a salt. The result is
the salted password. It is enough to log in as the user, so a broker keeps only two keys made from
it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from groupd.protocol.messages.secret import Secret

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
ITERATIONS_DEFAULT = 4096
"""The default and the limits of the iterations of hashing: the limits are Kafka's, the default is
that of its tools."""

NAME_BYTES_MAX = 1000
"""The most bytes of a user's name in UTF-8."""

SALT_BYTES_MAX = 1000

NO_NAME = "Username must not be empty"
"""Why there is no user without a name, in Kafka's words."""

SALT_BITS = 130
"""The bits of the salts that Kafka's tools make, and of ours. The salts of unknown users have as
many, or they could be told from the others."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

_Stored = tuple[bytes, bytes, bytes, int]
"""Salt, stored key, server key, iterations."""


class ScramMechanism(Struct, frozen=True):
    """`code`: the mechanism's number on the wire. `size`: the bytes of a hash and of a salted
    password."""

    name: str
    code: int
    hash_name: str
    size: int


MECHANISMS: Mapping[str, ScramMechanism] = {
    one.name: one
    for one in (
        ScramMechanism("SCRAM-SHA-256", 1, "sha256", 32),
        ScramMechanism("SCRAM-SHA-512", 2, "sha512", 64),
    )
}

MECHANISM_BY_CODE: Mapping[int, ScramMechanism] = {one.code: one for one in MECHANISMS.values()}


class ScramCredential(Struct, frozen=True):
    """The credential that is stored for a user and a mechanism, instead of the password."""

    salt: Secret
    stored_key: Secret
    server_key: Secret
    iterations: int

    def to_text(self) -> str:
        """The credential as text, for the store."""
        keys = (self.salt, self.stored_key, self.server_key)
        return msgspec.json.encode([*map(bytes, keys), self.iterations]).decode()


def from_text(text: str) -> ScramCredential:
    """The credential from the text that `to_text` made. Raises ValueError."""
    try:
        salt, stored_key, server_key, iterations = msgspec.json.decode(text, type=_Stored)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    return ScramCredential(Secret(salt), Secret(stored_key), Secret(server_key), iterations)


def why_not(
    user: str, mechanism: ScramMechanism, iterations: int, salt: bytes, salted_password: bytes
) -> str | None:
    """Why there cannot be such a credential, as one sentence; None if there can. The limits of
    iterations are Kafka's, in the words that its tools look for. The limits of lengths are ours,
    because no client could log in with others."""
    if not user:
        return NO_NAME
    if len(user.encode()) > NAME_BYTES_MAX:
        return f"The name is longer than {NAME_BYTES_MAX} bytes."
    if "\0" in user:
        return "The name has a NUL character."
    if iterations < ITERATIONS_MIN:
        return "Too few iterations"
    if iterations > ITERATIONS_MAX:
        return "Too many iterations"
    if not 1 <= len(salt) <= SALT_BYTES_MAX:
        return f"The salt must have 1 to {SALT_BYTES_MAX} bytes."
    if len(salted_password) != mechanism.size:
        return f"The salted password of {mechanism.name} must have {mechanism.size} bytes."
    return None


def credential(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return ScramCredential(Secret(salt), Secret(stored_key), Secret(server_key), iterations)


def keyless(iterations: int) -> ScramCredential:
    """A credential without keys. A recording has it, because no client logs in to it."""
    return ScramCredential(Secret(), Secret(), Secret(), iterations)


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> Secret:
    """The salted password. That takes milliseconds, so never on the event loop of a broker."""
    hashed = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
    return Secret(hashed)


def new_salt() -> Secret:
    return salt_of(secrets.randbits(SALT_BITS))


def salt_of(number: int) -> Secret:
    """The salt as Kafka's tools write it: a random number of 130 bits in base 36."""
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return Secret(digits.encode())
