"""SCRAM, the server's side: SE-27 to SE-34, without a broker."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections import Counter
from typing import Any

import pytest

from groupd.coordinator.security.sasl import scram
from groupd.coordinator.security.sasl.mechanisms import Authenticated, Challenge, Rejected, SaslStep
from groupd.coordinator.security.sasl.scram import ScramExchange, ScramServer
from groupd.coordinator.security.scram_credentials import ScramCredential
from tests.support.scram_client import KnownUsers, ScramClient, credential

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
SHA_256 = MECHANISMS[0]


def server(name: str = SHA_256, users: dict[str, str] | None = None, **more: Any) -> ScramServer:
    found = {user: credential(name, pw) for user, pw in (users or {"alice": "pw"}).items()}
    return ScramServer(name, KnownUsers(found), b"secret", **more)


def challenge(step: SaslStep) -> bytes:
    assert isinstance(step, Challenge), step
    return step.token


def run(client: ScramClient, exchange: ScramExchange) -> SaslStep:
    return exchange.respond(client.final(challenge(exchange.respond(client.first()))))


@pytest.mark.parametrize("name", MECHANISMS)
def test_both_sides_prove_that_they_know_the_password(name: str) -> None:
    client = ScramClient(name, "alice", "pw")
    step = run(client, server(name).begin())
    assert isinstance(step, Authenticated)
    assert step.user == "alice"
    assert client.verifies(step.token)


def test_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    kept = KnownUsers({"user": credential(SHA_256, "pencil", salt)})
    mechanism = ScramServer(SHA_256, kept, b"", lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    exchange = mechanism.begin()
    first = challenge(exchange.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
    assert first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = exchange.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == Authenticated(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


def test_every_exchange_has_its_own_nonce() -> None:
    mechanism = server()
    firsts = {challenge(mechanism.begin().respond(b"n,,n=alice,r=x")) for _ in range(50)}
    assert len(firsts) == 50
    nonce = next(iter(firsts)).decode().split(",")[0].removeprefix("r=x")
    assert len(nonce) * 6 >= 128
    assert all(0x21 <= ord(letter) <= 0x7E for letter in nonce)


def _changed(final: bytes, name: bytes, value: bytes) -> bytes:
    parts = [name + b"=" + value if p.startswith(name + b"=") else p for p in final.split(b",")]
    return b",".join(parts)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda final, nonce: _changed(final, b"r", b"client-nonce"),
        lambda final, nonce: _changed(final, b"r", nonce + b"x"),
        lambda final, nonce: _changed(final, b"r", b"x" + nonce[1:]),
        lambda final, nonce: _changed(final, b"p", b64encode(bytes(31))),
        lambda final, nonce: _changed(final, b"p", b64encode(bytes(33))),
        lambda final, nonce: _changed(final, b"p", b64encode(bytes(32))),
        lambda final, nonce: _changed(final, b"p", b"!!!!"),
        lambda final, nonce: _changed(final, b"p", b"abcde"),
        lambda final, nonce: _changed(final, b"p", b""),
        lambda final, nonce: final.rpartition(b",p=")[0],
        lambda final, nonce: _changed(final, b"c", b"cGFyYmFnZQ=="),
        lambda final, nonce: _changed(final, b"c", b"!"),
        lambda final, nonce: b"\xff" + final,
        lambda final, nonce: b"",
    ],
)
def test_a_spoiled_last_message_fails(spoil: Any) -> None:
    """SE-28, SE-29. All look the same."""
    client, exchange = ScramClient(SHA_256, "alice", "pw"), server().begin()
    first = challenge(exchange.respond(client.first()))
    step = exchange.respond(spoil(client.final(first), first.split(b",")[0][2:]))
    assert isinstance(step, Rejected)
    assert step.message == (
        "Authentication failed: invalid credentials for SASL mechanism SCRAM-SHA-256"
    )


def test_a_recorded_exchange_cannot_be_replayed() -> None:
    mechanism, client = server(), ScramClient(SHA_256, "alice", "pw")
    recorded = client.final(challenge(mechanism.begin().respond(client.first())))
    again = mechanism.begin()
    again.respond(client.first())
    assert isinstance(again.respond(recorded), Rejected)


def test_an_unknown_user_looks_like_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-30, without a clock: the same answers, and the same calls of hash functions."""
    calls: Counter[Any] = Counter()

    class CountingHmac:
        compare_digest = staticmethod(hmac.compare_digest)

        @staticmethod
        def digest(key: bytes, message: bytes, name: str) -> bytes:
            calls["hmac", len(key), name] += 1
            return hmac.digest(key, message, name)

    class CountingHashes:
        @staticmethod
        def new(name: str, data: bytes) -> Any:
            calls[name, len(data)] += 1
            return hashlib.new(name, data)

        @staticmethod
        def sha512(data: bytes) -> Any:
            calls["sha512"] += 1
            return hashlib.sha512(data)

    mechanism = server()
    wrong, unknown = (ScramClient(SHA_256, user, "no") for user in ("alice", "mabel"))
    monkeypatch.setattr(scram, "hmac", CountingHmac)
    monkeypatch.setattr(scram, "hashlib", CountingHashes)
    of_wrong = run(wrong, mechanism.begin())
    calls_of_wrong, calls = calls, Counter()
    of_unknown = run(unknown, mechanism.begin())
    assert isinstance(of_wrong, Rejected)
    assert isinstance(of_unknown, Rejected)
    assert (of_wrong.message, of_wrong.reason) == (of_unknown.message, of_unknown.reason)
    assert (of_wrong.guessed, of_unknown.guessed) == ("alice", "mabel")
    assert calls_of_wrong == calls
    assert sum(calls.values()) == 7


def test_the_salt_of_an_unknown_user_stays() -> None:
    mechanism = server()

    def salt(user: bytes) -> tuple[bytes, bytes]:
        first = challenge(mechanism.begin().respond(b"n,,n=" + user + b",r=x"))
        _, salt, iterations = first.split(b",")
        return salt, iterations

    assert salt(b"nobody") == salt(b"nobody")
    assert salt(b"nobody") != salt(b"somebody")
    assert salt(b"nobody")[1] == salt(b"alice")[1] == b"i=4096"
    # As Kafka's tools make them: 130 bits in base 36.
    assert b64decode(salt(b"nobody")[0][2:]).decode().isalnum()


def test_unknown_users_have_the_iterations_that_known_ones_have() -> None:
    known = {f"user-{number}": credential(SHA_256, "pw", iterations=4096) for number in range(5)}
    more = {f"more-{number}": credential(SHA_256, "pw", iterations=16384) for number in range(15)}

    def shown(users: dict[str, ScramCredential]) -> list[tuple[bytes, bytes]]:
        """Salt and iterations of many unknown users."""
        mechanism = ScramServer(SHA_256, KnownUsers(users), b"secret")
        firsts = (
            challenge(mechanism.begin().respond(b"n,,n=nobody-%d,r=x" % number))
            for number in range(400)
        )
        return [tuple(first.split(b",")[1:]) for first in firsts]  # type: ignore[misc]

    before, after = shown(known), shown(known | more)
    assert {iterations for _, iterations in before} == {b"i=4096"}
    counts = Counter(iterations for _, iterations in after)
    assert counts.keys() == {b"i=4096", b"i=16384"}
    assert 250 < counts[b"i=16384"] < 350, "in proportion"
    # The salt of a user changes when its password is set, and only then.
    for (salt, iterations), (new_salt, new_iterations) in zip(before, after, strict=True):
        assert (salt == new_salt) == (iterations == new_iterations)
    one_more = {"new": credential(SHA_256, "pw", iterations=16384)}
    changed = zip(after, shown(known | more | one_more), strict=True)
    assert sum(old != new for old, new in changed) < 20


@pytest.mark.parametrize(
    "first",
    [
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=alice",
        b"n,,r=x,n=alice",
        b"n,,n=a=b,r=x",
        b"n,,n=a=2c,r=x",
        b"n,,n=alice,r=x,",
        b"n,,n=alice,r=x,1=2",
        "n,,n=zoé,r=x".encode(),
        b"n,,n=" + b"a" * 20_000 + b",r=x",
        b"",
        b"\xff\xfe",
    ],
)
def test_bad_first_messages(first: bytes) -> None:
    """SE-31, SE-32."""
    assert isinstance(server().begin().respond(first), Rejected)


@pytest.mark.parametrize("header", ["n,,", "n,a=alice,"])
@pytest.mark.parametrize("binding", [None, "biws"])
def test_headers_and_bindings(header: str, binding: str | None) -> None:
    client, exchange = ScramClient(SHA_256, "alice", "pw", header=header), server().begin()
    first = challenge(exchange.respond(client.first()))
    assert isinstance(exchange.respond(client.final(first, binding)), Authenticated)


def test_escaped_names() -> None:
    """SE-32."""
    client = ScramClient(SHA_256, "a=3Db=2Cc", "pw")
    step = run(client, server(users={"a=b,c": "pw"}).begin())
    assert isinstance(step, Authenticated)
    assert step.user == "a=b,c"


def test_extensions() -> None:
    """SE-33: an unknown one is ignored; a delegation token is one that nobody has."""
    other = ScramClient(SHA_256, "alice", "pw", extensions=",foo=bar")
    assert isinstance(run(other, server().begin()), Authenticated)
    token = ScramClient(SHA_256, "alice", "pw", extensions=",tokenauth=true")
    assert isinstance(run(token, server().begin()), Rejected)


def test_the_credential_is_read_once() -> None:
    """SE-34."""
    kept: dict[str, ScramCredential] = {"alice": credential(SHA_256, "pw")}
    exchange = ScramServer(SHA_256, KnownUsers(kept), b"").begin()
    client = ScramClient(SHA_256, "alice", "pw")
    first = challenge(exchange.respond(client.first()))
    kept["alice"] = credential(SHA_256, "other")
    assert isinstance(exchange.respond(client.final(first)), Authenticated)
