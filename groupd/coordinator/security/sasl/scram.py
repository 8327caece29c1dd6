"""SASL/SCRAM-SHA-256 and -512, the server's side (RFC 5802, RFC 7677; `docs/spec/security.md#2.3`).
The grammar is Kafka's.

An unknown user gets an answer like a known one: with a salt that does not change, and with a number
of iterations that known users have. It fails at the end, after the same amount of hashing. There is
no channel binding.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Protocol

from groupd.coordinator.security.sasl.mechanisms import (
    Authenticated,
    Challenge,
    Rejected,
    SaslStep,
    invalid_credentials,
    other_authorization_id,
)
from groupd.coordinator.security.scram_credentials import (
    MECHANISMS,
    SALT_BITS,
    ScramCredential,
    salt_of,
)
from groupd.protocol.messages.secret import Secret

MESSAGE_MAX = 16 * 1024
"""The most bytes of a client's message; a user name is much shorter."""

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authorization_id>{_NAME}))?,)(?:m={_VALUE},)?"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL = re.compile(
    rf"c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS},p=(?P<proof>{_BASE64})"
)
_NO_BINDING = "biws"
"""Base64 of the shortest GS2 header, "n,,". Some clients send it whatever their header was."""


class ScramCredentials(Protocol):
    """The credentials of the users. `mechanism`: the name of one."""

    def credential(self, user: str, mechanism: str) -> ScramCredential | None: ...

    def some_iterations(self, mechanism: str, share: float) -> int:
        """The number of iterations of one of the users. `share`, from 0 to 1, chooses the user."""
        ...


def new_nonce() -> str:
    """192 random bits, in characters that a nonce may have."""
    return secrets.token_urlsafe(24)


class ScramServer:
    """The server's side of SCRAM. `secret`: the salts of unknown users are made from it, so they
    change when it changes. `nonce()` returns a new nonce."""

    def __init__(
        self,
        name: str,
        credentials: ScramCredentials,
        secret: bytes,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self.name = name
        self._hash = MECHANISMS[name].hash_name
        self._credentials = credentials
        self._secret = secret
        self._nonce = nonce

    def begin(self) -> ScramExchange:
        return ScramExchange(self.name, self._hash, self._credential, self._nonce())

    def _credential(self, user: str, with_token: bool) -> tuple[ScramCredential, bool]:
        """The credential, and whether there is such a user. Both cases do the same work."""
        share = self._drawn(user) / (1 << SALT_BITS)
        iterations = self._credentials.some_iterations(self.name, share)
        # Another number of iterations has another salt, as after a new password.
        salt = salt_of(self._drawn(f"{user}\0{iterations}"))
        key = Secret(bytes(MECHANISMS[self.name].size))  # no proof fits it
        nobody = ScramCredential(salt, key, key, iterations)
        known = None if with_token else self._credentials.credential(user, self.name)
        return (nobody, False) if known is None else (known, True)

    def _drawn(self, text: str) -> int:
        """A number of `SALT_BITS` bits that looks random. It is always the same for the same
        text."""
        digest = hashlib.sha512(f"{self.name}\0{text}".encode()).digest()
        drawn = hmac.digest(self._secret, digest, self._hash)
        return int.from_bytes(drawn, "big") >> (8 * len(drawn) - SALT_BITS)


class ScramExchange:
    """One exchange. `find(user, with_token)` returns the credential and whether there is such a
    user; `with_token`: a delegation token is meant. `nonce`: the server's part."""

    def __init__(
        self,
        name: str,
        hash_name: str,
        find: Callable[[str, bool], tuple[ScramCredential, bool]],
        nonce: str,
    ) -> None:
        self._name = name
        self._hash = hash_name
        self._find = find
        self._nonce = nonce
        self._user: str | None = None
        """The user; None before the client's first message."""
        self._bindings: tuple[str, ...] = ()
        self._messages = ""
        """The messages so far, as both sides sign them."""
        self._credential: ScramCredential
        self._known = False

    def respond(self, token: bytes) -> SaslStep:
        if len(token) > MESSAGE_MAX:
            return self._invalid("message too long")
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            return self._invalid("not ASCII")
        return self._first(text) if self._user is None else self._final(text, self._user)

    def _first(self, text: str) -> SaslStep:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            return self._invalid("malformed first message")
        user = _unescaped(match["name"])
        authorization_id = _unescaped(match["authorization_id"] or "")
        if authorization_id not in ("", user):
            return other_authorization_id(self._name)
        # Delegation tokens do not exist here: such a user is unknown.
        with_token = "tokenauth=true" in match["extensions"].lower().split(",")
        self._credential, self._known = self._find(user, with_token)
        self._user = user
        self._bindings = _NO_BINDING, b64encode(match["gs2"].encode()).decode()
        self._nonce = match["nonce"] + self._nonce
        salt, iterations = b64encode(self._credential.salt).decode(), self._credential.iterations
        answer = f"r={self._nonce},s={salt},i={iterations}"
        self._messages = f"{match['bare']},{answer}"
        return Challenge(answer.encode())

    def _final(self, text: str, user: str) -> SaslStep:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            return self._invalid("malformed last message")
        if not hmac.compare_digest(match["nonce"], self._nonce):
            return self._invalid("another nonce")
        if match["binding"] not in self._bindings:
            return self._invalid("another channel binding")
        try:
            proof = b64decode(match["proof"], validate=True)
        except binascii.Error:
            return self._invalid("proof is not base64")
        signed = f"{self._messages},c={match['binding']},r={match['nonce']}".encode()
        credential = self._credential
        right = self._proves(proof, hmac.digest(credential.stored_key, signed, self._hash))
        signature = hmac.digest(credential.server_key, signed, self._hash)
        if not (right and self._known):
            return self._invalid("unknown user or wrong password", user)
        return Authenticated(b"v=" + b64encode(signature), user)

    def _proves(self, proof: bytes, signature: bytes) -> bool:
        """Whether `proof` was made with the client key."""
        if len(proof) != len(signature):
            return False
        key = bytes(ours ^ theirs for ours, theirs in zip(signature, proof, strict=True))
        stored = hashlib.new(self._hash, key).digest()
        return hmac.compare_digest(stored, self._credential.stored_key)

    def _invalid(self, reason: str, guessed: str | None = None) -> Rejected:
        return invalid_credentials(self._name, reason, guessed)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
