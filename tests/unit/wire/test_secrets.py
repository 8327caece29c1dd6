"""Messages with secrets may be logged: their text does not tell the secret."""

from __future__ import annotations

import pytest
from msgspec import Struct

from groupd.coordinator.plain_text import plain_text
from groupd.protocol.messages.delegation_tokens import (
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from groupd.protocol.messages.sasl import SaslAuthenticateReply, SaslAuthenticateRequest
from groupd.protocol.messages.secret import Secret
from groupd.protocol.messages.users import ScramUpsertion

HIDDEN = Secret(b"hush-hush")


def test_no_text_of_a_secret_shows_it() -> None:
    for text in (repr(HIDDEN), str(HIDDEN), f"{HIDDEN}", f"{[HIDDEN]}"):
        assert "9 secret bytes" in text
        assert "hush" not in text


def test_it_is_the_bytes_all_the_same() -> None:
    assert HIDDEN == b"hush-hush"
    assert HIDDEN.partition(b"-")[0] == b"hush"


@pytest.mark.parametrize(
    "message",
    [
        SaslAuthenticateRequest(HIDDEN),
        SaslAuthenticateReply(auth_bytes=HIDDEN),
        ScramUpsertion("alice", 1, 4096, HIDDEN, HIDDEN),
        RenewDelegationTokenRequest(HIDDEN, 1),
        ExpireDelegationTokenRequest(HIDDEN, 1),
    ],
)
def test_messages(message: Struct) -> None:
    assert "hush" not in repr(message)
    assert HIDDEN.hex() not in plain_text(message)
