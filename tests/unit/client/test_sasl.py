"""The client's side of a login: the tokens that it sends, and which answers it does not believe."""

from __future__ import annotations

from base64 import b64encode

import pytest

from groupd.client import sasl
from groupd.client.errors import LoginFailed
from groupd.client.sasl import SaslTokens, bearer_login, next_token, password_login

NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(monkeypatch: pytest.MonkeyPatch, user: str = "user") -> SaslTokens:
    """The login of RFC 7677's example."""
    monkeypatch.setattr(sasl.secrets, "token_urlsafe", lambda _: "rOprNGfwEbeRWgbNEkqO")
    return password_login("SCRAM-SHA-256", user, "pencil").tokens()


def test_scram_as_in_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = scram(monkeypatch)
    assert next(tokens) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    proof = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert next_token(tokens, FIRST) == proof
    assert next_token(tokens, LAST) is None


def test_scram_names_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert next(scram(monkeypatch, "a=b,c")) == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    "answers",
    [
        (b"",),
        (FIRST.replace(b"rOpr", b"xxxx"),),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",),
        (FIRST.replace(b"4096", b"2000000000"),),
        (FIRST.replace(b"4096", b"-1"),),
        (FIRST.replace(b"4096", b"1"),),
        (FIRST.replace(b"i=4096", b"i=\xff"),),
        (FIRST.replace(b"s=", b"t="),),
        (FIRST, b"v=" + b64encode(bytes(32))),
        (FIRST, b""),
    ],
)
def test_servers_that_do_not_know_the_password(
    answers: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = scram(monkeypatch)
    next(tokens)
    *believed, last = answers
    for answer in believed:
        assert next_token(tokens, answer)
    with pytest.raises(LoginFailed):
        next_token(tokens, last)


def test_plain() -> None:
    tokens = password_login("PLAIN", "alice", "a=b;c").tokens()
    assert next(tokens) == b"\0alice\0a=b;c"
    assert next_token(tokens, b"") is None


def test_a_token_of_an_identity_provider() -> None:
    tokens = bearer_login("aa.bb.cc").tokens()
    assert next(tokens) == b"n,,\x01auth=Bearer aa.bb.cc\x01\x01"
    assert next_token(tokens, b"") is None
    tokens = bearer_login("aa.bb.cc").tokens()
    next(tokens)
    assert next_token(tokens, b'{"status":"invalid_token"}') == b"\x01"
