"""An identity provider for tests: keys, a JWKS, and signed tokens."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://idp.test", "groupd"
NOW_S = 1_800_000_000


@cache
def private_key(algorithm: str, which: int = 0) -> Any:
    """A private key, the same one for the same arguments: RSA keys take a while to make."""
    match algorithm[:2]:
        case "RS" | "PS":
            return rsa.generate_private_key(65537, 2048)
        case "ES":
            curve = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
            return ec.generate_private_key(curve[algorithm]())
    return ed25519.Ed25519PrivateKey.generate()


def public_entry(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    """The JWKS entry of a private key."""
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        entry = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        entry = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        entry = OKPAlgorithm.to_jwk(public, as_dict=True)
    entry.pop("key_ops", None)
    return {**entry, "kid": kid, "use": "sig", **more}


def jwks(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keys": entries}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a valid token with these changes; None leaves one out."""
    valid = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "iat": NOW_S - 10,
        "exp": NOW_S + 600,
        **changes,
    }
    return {name: value for name, value in valid.items() if value is not None}


def signed(
    payload: dict[str, Any], algorithm: str = "ES256", kid: str | None = "k1", **header: Any
) -> str:
    headers = {**({} if kid is None else {"kid": kid}), **header}
    # Not `jwt.encode`: it refuses claims of a wrong type.
    text = json.dumps(payload).encode()
    return jwt.PyJWS().encode(text, private_key(algorithm), algorithm, headers=headers)


def unsigned(header: dict[str, Any], payload: dict[str, Any], signature: bytes = b"x") -> str:
    """A token of any three sections."""
    sections = json.dumps(header).encode(), json.dumps(payload).encode(), signature
    return ".".join(urlsafe_b64encode(one).rstrip(b"=").decode() for one in sections)


def message(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    """A client's message of OAUTHBEARER."""
    header = f"n,a={authorization_id}," if authorization_id else "n,,"
    return f"{header}\x01auth=Bearer {token}\x01{extensions}\x01".encode()
