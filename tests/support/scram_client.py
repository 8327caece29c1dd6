"""The client's side of SCRAM (RFC 5802), for tests, with plain arithmetic of its own."""

from __future__ import annotations

import functools
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping

from groupd.coordinator.security.scram_credentials import ScramCredential
from groupd.protocol.messages.secret import Secret


def hash_name(mechanism: str) -> str:
    return mechanism.removeprefix("SCRAM-").replace("-", "").lower()


def credential(
    mechanism: str, password: str, salt: bytes = b"salt of a test", iterations: int = 4096
) -> ScramCredential:
    name = hash_name(mechanism)
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    server_key = hmac.digest(salted, b"Server Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramCredential(Secret(salt), Secret(stored_key), Secret(server_key), iterations)


@functools.lru_cache
def _salted(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The salted password. It takes a millisecond, and the same users come again and again."""
    return hashlib.pbkdf2_hmac(name, password, salt, iterations)


class KnownUsers:
    """The credentials of users: the name of a user -> its credential, of any mechanism."""

    def __init__(self, by_user: Mapping[str, ScramCredential] | None = None) -> None:
        self._by_user = by_user or {}

    def credential(self, user: str, mechanism: str) -> ScramCredential | None:
        return self._by_user.get(user)

    def some_iterations(self, mechanism: str, share: float) -> int:
        of_all = sorted(one.iterations for one in self._by_user.values())
        return of_all[int(share * len(of_all))]


class ScramClient:
    """`user` is sent as it is: escape it before."""

    def __init__(
        self,
        mechanism: str,
        user: str,
        password: str,
        nonce: str = "client-nonce",
        header: str = "n,,",
        extensions: str = "",
    ) -> None:
        self._name = hash_name(mechanism)
        self._password = password
        self._header = header
        self._bare = f"n={user},r={nonce}{extensions}"
        self._signature = b""

    def first(self) -> bytes:
        return (self._header + self._bare).encode()

    def final(self, server_first: bytes, binding: str | None = None) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        if binding is None:
            binding = b64encode(self._header.encode()).decode()
        without_proof = f"c={binding},r={fields['r']}"
        signed = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        salt, iterations = b64decode(fields["s"]), int(fields["i"])
        salted = _salted(self._name, self._password.encode(), salt, iterations)
        key = hmac.digest(salted, b"Client Key", self._name)
        mask = hmac.digest(hashlib.new(self._name, key).digest(), signed, self._name)
        proof = bytes(a ^ b for a, b in zip(key, mask, strict=True))
        server_key = hmac.digest(salted, b"Server Key", self._name)
        self._signature = hmac.digest(server_key, signed, self._name)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verifies(self, server_final: bytes) -> bool:
        return server_final == b"v=" + b64encode(self._signature)
