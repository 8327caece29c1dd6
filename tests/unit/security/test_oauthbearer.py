"""SASL/OAUTHBEARER: the messages around a token."""

from __future__ import annotations

import pytest

from groupd.coordinator.security.sasl.mechanisms import (
    Authenticated,
    Challenge,
    Later,
    Rejected,
    SaslStep,
)
from groupd.coordinator.security.sasl.oauthbearer import OAuthBearerExchange, OAuthBearerMechanism
from groupd.coordinator.security.sasl.tokens import InvalidToken, Judged
from tests.support.tokens import message

JSON = b'{"status":"invalid_token"}'


def judge(token: str) -> Judged:
    if token != "good-token":
        raise InvalidToken("bad")
    return Judged("alice", 5000)


def begin() -> OAuthBearerExchange:
    return OAuthBearerMechanism(judge).begin()


def send(exchange: OAuthBearerExchange, token: bytes) -> SaslStep:
    step = exchange.respond(token)
    return step.work() if isinstance(step, Later) else step


@pytest.mark.parametrize(
    "text",
    [
        message("good-token"),
        message("good-token", "alice"),
        message("good-token", extensions="traceId=1 2\t3\x01other=\x01"),
        b"n,,\x01auth=bEARER   good-token\x01\x01",
    ],
)
def test_good_tokens(text: bytes) -> None:
    assert send(begin(), text) == Authenticated(b"", "alice", 5000)


def test_a_bad_token_is_told_twice() -> None:
    """SE-36."""
    exchange = begin()
    assert send(exchange, message("bad-token")) == Challenge(JSON)
    last = send(exchange, b"\x01")
    assert isinstance(last, Rejected)
    assert last.message.encode() == JSON


def test_any_other_message_is_a_fresh_attempt() -> None:
    exchange = begin()
    assert send(exchange, message("bad-token")) == Challenge(JSON)
    assert send(exchange, message("good-token")) == Authenticated(b"", "alice", 5000)
    exchange = begin()
    send(exchange, message("bad-token"))
    assert isinstance(send(exchange, b"\x01x"), Rejected)
    assert isinstance(send(exchange, b"\x01"), Rejected)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good-token\x01",
        b"n,,\x01auth=Basic good-token\x01\x01",
        b"n,,\x01auth=Bearer good token\x01\x01",
        b"n,,\x01Auth=Bearer good-token\x01\x01",
        b"n,,\x01auth=Bearer good-token\x01auth=Bearer good-token\x01\x01",
        b"n,,\x01auth=Bearer good-token\x01a1=x\x01\x01",
        b"n,,\x01auth=Bearer good-token\x01" + b"a=x\x01" * 100 + b"\x01",
        b"n,,\x01auth=Bearer good-token\x01a=\x02\x01\x01",
        b"y,,\x01auth=Bearer good-token\x01\x01",
        b"n,a=,\x01auth=Bearer good-token\x01\x01",
        b"\xff",
    ],
)
def test_malformed_messages_fail_at_once(text: bytes) -> None:
    step = send(begin(), text)
    assert isinstance(step, Rejected)
    assert step.message.endswith("OAUTHBEARER")


def test_nobody_acts_as_somebody_else() -> None:
    assert isinstance(send(begin(), message("good-token", "bob")), Rejected)
