"""What is kept of a password."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from groupd.coordinator.plain_text import plain_text
from groupd.coordinator.security.scram_credentials import (
    MECHANISMS,
    ScramCredential,
    credential,
    from_text,
    new_salt,
    salt_of,
    salted,
)
from groupd.protocol.messages.secret import Secret

SHA_256, SHA_512 = MECHANISMS["SCRAM-SHA-256"], MECHANISMS["SCRAM-SHA-512"]


def test_the_example_of_rfc_7677() -> None:
    """Section 3: user "user", password "pencil". The server's signature is made with the server
    key, and the client's proof fits the stored key."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    made = credential(SHA_256, salted(SHA_256, "pencil", salt, 4096), salt, 4096)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    signed = (
        f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        f"c=biws,r={nonce}"
    ).encode()
    signature = hmac.digest(made.server_key, signed, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    mask = hmac.digest(made.stored_key, signed, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, mask, strict=True))
    assert hashlib.sha256(client_key).digest() == made.stored_key


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_sizes_and_text(mechanism) -> None:
    password = salted(mechanism, "pä=,ss", b"salt", 4096)
    made = credential(mechanism, password, b"salt", 4096)
    assert len(password) == len(made.stored_key) == len(made.server_key) == mechanism.size
    assert from_text(made.to_text()) == made
    # Neither the password nor what stands for it is kept.
    assert base64.b64encode(password).decode() not in made.to_text()


def test_it_does_not_show_in_texts() -> None:
    made = ScramCredential(Secret(b"saltsalt"), Secret(b"stored!"), Secret(b"server!"), 4096)
    for text in (repr(made), plain_text(made)):
        assert "4096" in text
        for hidden in ("saltsalt", "stored!", "server!"):
            assert hidden not in text
            assert hidden.encode().hex() not in text


@pytest.mark.parametrize("text", ["", "[]", '["YQ==","YQ==","YQ=="]', '["!","YQ==","YQ==",1]'])
def test_damaged_texts(text: str) -> None:
    with pytest.raises(ValueError) as damaged:
        from_text(text)
    assert str(damaged.value)


def test_salts() -> None:
    """They have the form in which Kafka's tools write them: base 36."""
    assert salt_of(36**2 + 35) == b"10z"
    salts = {new_salt() for _ in range(50)}
    assert len(salts) == 50
    assert all(20 <= len(one) <= 26 and one.isalnum() for one in salts)
