"""The client's side of a SASL login: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER
(RFC 7628).

Nothing here does input or output: `login` says which calls to make, and whoever has a connection
makes them, blocking or not.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Generator
from typing import Any

from groupd.coordinator.security.scram_credentials import ITERATIONS_MIN
from groupd.coordinator.security.scram_credentials import MECHANISMS as SCRAM
from groupd.protocol.errors import ErrorCode
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Ask, Call
from groupd.protocol.writer import Writer

SASL_HANDSHAKE = Call(17, 1, "SaslHandshake")
SASL_AUTHENTICATE = Call(36, 1, "SaslAuthenticate")

ITERATIONS_MAX = 1_000_000
"""A server that wants more hashing than this is not believed; nor is one that wants less than
`ITERATIONS_MIN`: with the proof that it gets, the password would be easy to find."""

Exchange = Generator[bytes, bytes, None]
"""Yields a token to send, gets the server's answer to it. Raises LoginFailed."""

Login = Generator[Ask, Any, int]
"""Yields calls to make, gets what `Ask.read` has made of each reply. Returns for how many
milliseconds the login counts, 0 for ever. Raises LoginFailed."""


class LoginFailed(Exception):
    """The server has refused, or has not proved what it must. `str()`: what it does, to stand
    behind its name."""


def login(mechanism: str, exchange: Exchange) -> Login:
    """The calls of a login: a handshake, then tokens."""
    error, enabled = yield Ask(
        SASL_HANDSHAKE,
        lambda writer: writer.string(mechanism),
        lambda reader: (reader.int16(), reader.array(Reader.string)),
    )
    if error and not enabled:
        raise LoginFailed("has no logins: leave SASL_ out of security.protocol")
    if error:
        raise LoginFailed(f"does not know {mechanism}, but {', '.join(enabled)}")
    lifetime_ms: int = 0
    token = next(exchange)
    while True:
        answer, lifetime_ms = yield _authenticate(token)
        try:
            token = exchange.send(answer)
        except StopIteration:
            return lifetime_ms


def password_exchange(mechanism: str, user: str, password: str) -> Exchange:
    """The tokens of PLAIN or SCRAM. Hashing the password takes milliseconds."""
    if mechanism in SCRAM:
        return _scram(SCRAM[mechanism].hash_name, user, password)
    return _plain(user, password)


def bearer_exchange(token: str) -> Exchange:
    """The tokens of OAUTHBEARER."""
    if (yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
        # The server says why it refuses, and refuses when it has been told to go on.
        yield b"\x01"


def _authenticate(token: bytes) -> Ask:
    def write(writer: Writer) -> None:
        writer.bytes_(token)

    def read(reader: Reader) -> tuple[bytes, int]:
        error, message, answer = reader.int16(), reader.nullable_string(), reader.bytes_()
        lifetime_ms = reader.int64()
        if error:
            raise LoginFailed(f"refused the login: {message or _name(error)}")
        return answer, lifetime_ms

    return Ask(SASL_AUTHENTICATE, write, read)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _plain(user: str, password: str) -> Exchange:
    yield f"\0{user}\0{password}".encode()


def _scram(hash_name: str, user: str, password: str) -> Exchange:
    nonce = secrets.token_urlsafe(24)
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    answer = yield f"n,,{first}".encode()
    try:
        challenge = answer.decode()
        fields = dict(part.split("=", 1) for part in challenge.split(","))
        theirs, salt, iterations = fields["r"], b64decode(fields["s"]), int(fields["i"])
    except (KeyError, ValueError, binascii.Error):
        raise LoginFailed("does not answer as SCRAM does") from None
    if (
        not theirs.startswith(nonce)
        or theirs == nonce
        or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX
    ):
        raise LoginFailed("does not answer as SCRAM does")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    final = f"c=biws,r={theirs}"
    signed = f"{first},{challenge},{final}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, signed, hash_name)
    proof = bytes(ours ^ mask for ours, mask in zip(client_key, signature, strict=True))
    answer = yield f"{final},p={b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    right = b"v=" + b64encode(hmac.digest(server_key, signed, hash_name))
    if not hmac.compare_digest(answer, right):
        raise LoginFailed("does not know the password: is it the right server?")
