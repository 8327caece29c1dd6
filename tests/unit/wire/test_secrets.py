"""Messages with secrets may be logged: their text does not tell the secret."""

from __future__ import annotations

from groupd.protocol.messages.sasl import SaslAuthenticateReply, SaslAuthenticateRequest
from groupd.protocol.messages.secret import Secret

HIDDEN = Secret(b"hush-hush")


def test_no_text_of_a_secret_shows_it() -> None:
    for text in (repr(HIDDEN), str(HIDDEN), f"{HIDDEN}", f"{[HIDDEN]}"):
        assert "9 secret bytes" in text
        assert "hush" not in text


def test_it_is_the_bytes_all_the_same() -> None:
    assert HIDDEN == b"hush-hush"
    assert HIDDEN.partition(b"-")[0] == b"hush"


def test_messages() -> None:
    for message in (SaslAuthenticateRequest(HIDDEN), SaslAuthenticateReply(auth_bytes=HIDDEN)):
        assert "hush" not in repr(message)
