"""SASL/PLAIN: SE-25, SE-26."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from typing import Any

import pytest

from groupd.coordinator.security.sasl import mechanisms
from groupd.coordinator.security.sasl.mechanisms import Authenticated, PlainMechanism, Rejected

USERS = {"alice": "pw", "zoé": "pässword"}


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (b"\0alice\0pw", "alice"),
        (b"alice\0alice\0pw", "alice"),
        ("\0zoé\0pässword".encode(), "zoé"),
    ],
)
def test_right_passwords(token: bytes, user: str) -> None:
    assert PlainMechanism(USERS).respond(token) == Authenticated(b"", user)


@pytest.mark.parametrize(
    "token",
    [
        b"bob\0alice\0pw",
        b"alice\0pw",
        b"\0alice\0pw\0",
        b"\0\0pw",
        b"\0alice\0",
        b"\0alice\0pW",
        b"\0bob\0pw",
        b"\0Alice\0pw",
        b"",
        b"\0\xff\0pw",
        b"\0alice\0" + b"p" * 16384,
    ],
)
def test_everything_else_fails(token: bytes) -> None:
    assert isinstance(PlainMechanism(USERS).respond(token), Rejected)


def test_an_unknown_user_costs_and_looks_like_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SE-26, without a clock: the same calls and the same answer."""
    mechanism = PlainMechanism(USERS)
    calls: Counter[str] = Counter()

    def counted_hash(data: bytes) -> Any:
        calls["hash", len(data)] += 1
        return hashlib.sha256(data)

    def counted_compare(one: bytes, other: bytes) -> bool:
        calls["compare", len(one), len(other)] += 1
        return hmac.compare_digest(one, other)

    class Counting:
        compare_digest = staticmethod(counted_compare)

    monkeypatch.setattr(mechanisms, "sha256", counted_hash)
    monkeypatch.setattr(mechanisms, "hmac", Counting)
    wrong = mechanism.respond(b"\0alice\0no")
    of_wrong, calls = calls, Counter()
    unknown = mechanism.respond(b"\0nobody\0no")
    assert isinstance(wrong, Rejected)
    assert isinstance(unknown, Rejected)
    assert (wrong.message, wrong.reason) == (unknown.message, unknown.reason)
    assert (wrong.guessed, unknown.guessed) == ("alice", "nobody")
    assert of_wrong == calls
    assert sum(calls.values()) == 2


def test_no_password_guesses_the_hash_of_nobody() -> None:
    assert isinstance(PlainMechanism({}).respond(b"\0nobody\0" + b"x"), Rejected)
