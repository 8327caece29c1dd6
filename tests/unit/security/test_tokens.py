"""What makes a JSON web token valid: SE-35 to SE-38."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from groupd.coordinator.security.sasl.jwks import parse_jwks
from groupd.coordinator.security.sasl.tokens import InvalidToken, Judged, TokenJudge, TokenRules
from tests.support.tokens import (
    AUDIENCE,
    ISSUER,
    NOW_S,
    claims,
    jwks,
    private_key,
    public_entry,
    signed,
    unsigned,
)

RULES = TokenRules((AUDIENCE, "other"), ISSUER)
ALGORITHMS = ("RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class Keys:
    def __init__(self, *algorithms: str) -> None:
        entries = [
            public_entry(private_key(algorithm), f"k{number}")
            for number, algorithm in enumerate(algorithms, 1)
        ]
        self.keys = parse_jwks(jwks(*entries))
        self.misses: list[str] = []

    def current(self) -> Any:
        return self.keys

    def missed(self, kid: str) -> None:
        self.misses.append(kid)


def judge(token: str, rules: TokenRules = RULES, keys: Keys | None = None) -> Judged:
    return TokenJudge(rules, keys or Keys("ES256"), lambda: NOW_S * 1000).judge(token)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_valid_tokens(algorithm: str) -> None:
    token = signed(claims(), algorithm)
    assert judge(token, keys=Keys(algorithm)) == Judged("alice", (NOW_S + 600) * 1000)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 29},
        {"nbf": NOW_S + 29},
        {"aud": ["x", "other"]},
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"exp": NOW_S + 1.5},
    ],
)
def test_also_valid(changes: dict[str, Any]) -> None:
    assert judge(signed(claims(**changes))).user == "alice"


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW_S - 31},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": str(NOW_S + 600)},
        {"exp": True},
        {"exp": 1e300},
        {"exp": -1},
        {"iat": None},
        {"iat": "x"},
        {"nbf": NOW_S + 31},
        {"nbf": "x"},
        {"aud": None},
        {"aud": "somebody"},
        {"aud": []},
        {"aud": 7},
        {"iss": None},
        {"iss": "https://other.test"},
        {"iss": 7},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 7},
        {"sub": "half a pair: \ud800"},
        {"scope": 7},
        {"scope": ["a", "a"]},
        {"scope": ["a", 7]},
    ],
)
def test_claims_that_do_not_fit(changes: dict[str, Any]) -> None:
    """SE-36."""
    with pytest.raises(InvalidToken):
        judge(signed(claims(**changes)))


def test_another_claim_names_the_user() -> None:
    rules = TokenRules((), "", 30, "client_id")
    assert judge(signed(claims(client_id="c1", sub=None, aud=None)), rules).user == "c1"


def test_a_flipped_bit_and_other_keys() -> None:
    token = signed(claims())
    head, payload, signature = token.split(".")
    flipped = "A" if signature[5] != "A" else "B"
    with pytest.raises(InvalidToken):
        judge(f"{head}.{payload}.{signature[:5]}{flipped}{signature[6:]}")
    with pytest.raises(InvalidToken):
        judge(signed(claims(), "ES256", "k1"), keys=Keys("ES384"))
    keys = Keys("ES256")
    with pytest.raises(InvalidToken):
        judge(signed(claims(), kid="new"), keys=keys)
    assert keys.misses == ["new"]


def test_without_kid_the_only_fitting_key_counts() -> None:
    token = signed(claims(), kid=None)
    assert judge(token, keys=Keys("RS256", "ES256")).user == "alice"
    with pytest.raises(InvalidToken):
        judge(token, keys=Keys("ES256", "ES256"))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b",
        "a..c",
        "a.b.c.d",
        "a.b.c",
        ".b.c",
        "eyJ.eyJ.x",
        unsigned({"alg": "none"}, claims()),
        unsigned({"alg": "None", "kid": "k1"}, claims()),
        unsigned({"kid": "k1"}, claims()),
        unsigned({"alg": "ES256", "kid": ["k1"]}, claims()),
        unsigned({"alg": ["ES256"], "kid": "k1"}, claims()),
        unsigned({"alg": "ES256", "kid": "k1"}, claims(), b"x" * 64),
        unsigned({"alg": "RS256", "kid": "k1"}, claims(), b"x" * 256),
    ],
)
def test_no_tokens(token: str) -> None:
    """SE-37."""
    with pytest.raises(InvalidToken):
        judge(token)


def test_a_public_key_is_no_secret() -> None:
    """SE-37: HS256 with the RSA public key as if it were a secret both know."""
    public = private_key("RS256").public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = unsigned({"alg": "HS256", "kid": "k1"}, claims()).rpartition(".")[0]
    mac = urlsafe_b64encode(hmac.digest(pem, body.encode(), "sha256")).rstrip(b"=").decode()
    with pytest.raises(InvalidToken, match="no key of the JWKS fits"):
        judge(f"{body}.{mac}", keys=Keys("RS256"))


def test_the_token_cannot_choose_its_key() -> None:
    """SE-37: `jwk` and `jku` in the header change nothing."""
    own = public_entry(private_key("ES256", 1), "k1")
    token = signed(claims(), jwk=own, jku="https://attacker.test/keys", x5u="https://a.test")
    assert judge(token).user == "alice"  # signed with the key of the JWKS, so it counts
    with pytest.raises(InvalidToken):
        judge(token, keys=Keys("ES384"))


def test_a_token_that_needs_what_we_do_not_know() -> None:
    """A header that must be understood (RFC 7515, 4.1.11) is not."""
    with pytest.raises(InvalidToken):
        judge(signed(claims(), crit=["new"], new=True))


def test_a_long_header_is_not_read() -> None:
    with pytest.raises(InvalidToken, match="too long"):
        judge(signed(claims(), x="y" * 16 * 1024))


def test_errors_hold_nothing_of_the_token() -> None:
    token = signed(claims(sub="top-secret-subject", aud="top-secret-audience"))
    with pytest.raises(InvalidToken) as caught:
        judge(token)
    assert "top-secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_deep_json_is_refused() -> None:
    deep = urlsafe_b64encode(b"[" * 100_000).decode().rstrip("=")
    with pytest.raises(InvalidToken):
        judge(f"{deep}.{deep}.x")
