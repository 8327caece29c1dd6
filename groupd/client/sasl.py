"""The client's side of a SASL login: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677) and OAUTHBEARER
(RFC 7628).

This module only makes the tokens; `KafkaConnection` sends them.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator

from msgspec import Struct

from groupd.client.errors import LoginFailed

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
_SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
PASSWORD_MECHANISMS = (PLAIN, *_SCRAM_HASHES)

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 1_000_000
"""A server that asks for fewer or more iterations is not trusted. After few iterations, the proof
that it gets would make the password easy to guess."""

SaslTokens = Generator[bytes, bytes, None]
"""Yields a token to send, and is sent the server's answer to it. Raises LoginFailed, whose text
continues a sentence that begins with the server's name."""


class SaslLogin(Struct, frozen=True):
    """`tokens()` makes the tokens of one login."""

    mechanism: str
    tokens: Callable[[], SaslTokens]


def password_login(mechanism: str, user: str, password: str) -> SaslLogin:
    """`mechanism` is one of PASSWORD_MECHANISMS. With SCRAM it takes milliseconds to make the
    second token, because the password is hashed."""
    if mechanism == PLAIN:
        return SaslLogin(mechanism, lambda: _plain(user, password))
    return SaslLogin(mechanism, lambda: _scram(_SCRAM_HASHES[mechanism], user, password))


def bearer_login(token: str) -> SaslLogin:
    return SaslLogin(OAUTHBEARER, lambda: _bearer(token))


def next_token(tokens: SaslTokens, answer: bytes) -> bytes | None:
    """Returns the token after the server's answer; None: the login is done. Raises LoginFailed."""
    try:
        return tokens.send(answer)
    except StopIteration:
        return None


def _plain(user: str, password: str) -> SaslTokens:
    yield f"\0{user}\0{password}".encode()


def _bearer(token: str) -> SaslTokens:
    if (yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
        # The server has said why it refuses. It refuses only after this token.
        yield b"\x01"


def _scram(hash_name: str, user: str, password: str) -> SaslTokens:
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
