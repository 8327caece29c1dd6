"""Requests of a login as bytes, and their replies read by hand. Frames are without a length."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tests.support.raw import request, string

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


class Handshake(NamedTuple):
    """The body of a reply to SaslHandshake."""

    error: int
    mechanisms: list[str]


class AuthenticateBody(NamedTuple):
    """The body of a reply to SaslAuthenticate. `lifetime_ms` None: the version does not tell."""

    error: int
    message: str | None
    token: bytes
    lifetime_ms: int | None


def handshake(mechanism: str, version: int = 1, correlation: int = 1) -> bytes:
    return request(SASL_HANDSHAKE, version, correlation, string(mechanism))


def authenticate(token: bytes | None, version: int = 1, correlation: int = 2) -> bytes:
    """SaslAuthenticate in version 0 or 1."""
    size = -1 if token is None else len(token)
    body = struct.pack(">i", size) + (token or b"")
    return request(SASL_AUTHENTICATE, version, correlation, body)


def read_handshake(body: bytes) -> Handshake:
    """`body`: what follows the correlation id."""
    error, count = struct.unpack_from(">hi", body)
    at, found = 6, []
    for _ in range(count):
        (size,) = struct.unpack_from(">h", body, at)
        found.append(body[at + 2 : at + 2 + size].decode())
        at += 2 + size
    assert at == len(body)
    return Handshake(error, found)


def read_authenticated(body: bytes, version: int = 1) -> AuthenticateBody:
    """`body`: what follows the correlation id."""
    error, size = struct.unpack_from(">hh", body)
    message = None if size < 0 else body[4 : 4 + size].decode()
    at = 4 + max(size, 0)
    (size,) = struct.unpack_from(">i", body, at)
    token = body[at + 4 : at + 4 + size]
    at += 4 + size
    lifetime = None
    if version >= 1:
        (lifetime,) = struct.unpack_from(">q", body, at)
        at += 8
    assert at == len(body)
    return AuthenticateBody(error, message, token, lifetime)
