"""Judges JSON web tokens by KIP-768 (`docs/spec/security.md#2.3`): the signature with a key of the
JWKS, then issuer, audience, times, subject and scope.

The library checks signature, issuer and audience. Times are checked here, because our clock is
passed in.
"""

from __future__ import annotations

import binascii
import math
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
RSA_BITS_MIN = 2048
HEADER_MAX = 16 * 1024
"""Characters of a token's header, the only part that is read before the signature is checked."""


class InvalidToken(Exception):
    """The token is not valid; `str()` says why, without a part of the token."""


class SigningKey(Struct, frozen=True, eq=False):
    """A public key of a JWKS. `algorithms`: the algorithms that it may be used with. `kid`: its
    name, if it has one."""

    key: Any
    algorithms: tuple[str, ...]
    kid: str | None


class SigningKeys(Protocol):
    def current(self) -> tuple[SigningKey, ...]:
        """The keys as they are now. Runs in a thread."""
        ...

    def missed(self, kid: str) -> None:
        """Notes that a token names a key that is not there: it may be a new one."""
        ...


class Judged(Struct, frozen=True):
    """What a valid token says. `expires_ms`: in wall-clock time."""

    user: str
    expires_ms: int


class TokenRules(Struct, frozen=True):
    """What tokens must satisfy. `audience`, `issuer` empty: not checked. `skew_s`: by how much
    clocks may differ."""

    audience: tuple[str, ...]
    issuer: str
    skew_s: int = 30
    sub_claim: str = "sub"


def algorithms_of(key: object) -> tuple[str, ...]:
    """The algorithms that a public key may sign with; none for a kind of key that is not
    allowed."""
    if isinstance(key, RSAPublicKey):
        return _RSA if key.key_size >= RSA_BITS_MIN else ()
    if isinstance(key, EllipticCurvePublicKey):
        return _CURVES.get(key.curve.name, ())
    return ("EdDSA",) if isinstance(key, Ed25519PublicKey | Ed448PublicKey) else ()


class TokenJudge:
    """Judges tokens. `wall_ms()`: the time now."""

    def __init__(self, rules: TokenRules, keys: SigningKeys, wall_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._keys = keys
        self._wall_ms = wall_ms
        self._options: Any = {
            "require": ["exp", "iat"],
            "verify_aud": bool(rules.audience),
            "verify_iss": bool(rules.issuer),
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
            "verify_sub": False,
            "verify_jti": False,
        }

    def judge(self, token: str) -> Judged:
        """What the token says, if it is valid. Takes milliseconds. Raises InvalidToken."""
        sections = token.split(".")
        if len(sections) != 3 or not all(sections):
            raise InvalidToken("not three sections")
        key, algorithm = self._key(_header(sections[0]))
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._rules.audience or None,
                issuer=self._rules.issuer or None,
                options=self._options,
            )
        except jwt.PyJWTError as error:
            # Only the class is shown: texts of the library may hold parts of the token.
            raise InvalidToken(type(error).__name__) from None
        except (ValueError, TypeError, RecursionError, ArithmeticError) as error:
            raise InvalidToken(f"malformed: {type(error).__name__}") from None
        return self._claims(claims)

    def _key(self, header: _Header) -> tuple[Any, str]:
        """The key that the header names, and the algorithm. Nothing else in the header counts: the
        maker of a token must not choose where its key comes from."""
        algorithm, kid = header.alg, header.kid
        keys = self._keys.current()
        named = keys if kid is None else tuple(key for key in keys if key.kid == kid)
        if kid is not None and not named:
            self._keys.missed(kid)
            raise InvalidToken("signed with a key that is not in the JWKS")
        fitting = [key for key in named if algorithm in key.algorithms]
        if len(fitting) != 1:
            raise InvalidToken("no key of the JWKS fits the algorithm")
        return fitting[0].key, algorithm

    def _claims(self, claims: Mapping[str, Any]) -> Judged:
        rules, now_s = self._rules, self._wall_ms() / 1000
        expires_s = _time(claims, "exp")
        _time(claims, "iat")
        if expires_s + rules.skew_s <= now_s:
            raise InvalidToken("expired")
        if "nbf" in claims and _time(claims, "nbf") - rules.skew_s > now_s:
            raise InvalidToken("not valid yet")
        user = claims.get(rules.sub_claim)
        if not isinstance(user, str) or not user.strip() or not _is_text(user):
            raise InvalidToken(f"no {rules.sub_claim}")
        _check_scope(claims.get("scope"))
        return Judged(user, int(expires_s * 1000))


class _Header(Struct, frozen=True):
    """What counts in the header of a token."""

    alg: str
    kid: str | None = None


def _header(section: str) -> _Header:
    """The header, which is read alone. So most tokens without a valid signature are refused before
    their other parts are read. Raises InvalidToken."""
    if len(section) > HEADER_MAX:
        raise InvalidToken("the header is too long")
    try:
        text = urlsafe_b64decode(section + "=" * (-len(section) % 4))
        return msgspec.json.decode(text, type=_Header)
    except (binascii.Error, ValueError, RecursionError):  # msgspec raises the last two
        raise InvalidToken("malformed header") from None


def _time(claims: Mapping[str, Any], name: str) -> float:
    """The time `name` of a token, in seconds since 1970. Raises InvalidToken."""
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidToken(f"{name} is not a number")
    # Only up to the year 9999, as in everything that reads such times.
    if not math.isfinite(value) or not 0 <= value < 253402300800:
        raise InvalidToken(f"{name} is not a time")
    return float(value)


def _is_text(value: str) -> bool:
    """Whether the value is a text without half a surrogate pair. JSON allows such a half, but it
    cannot be sent, stored or logged."""
    return value == value.encode(errors="replace").decode()


def _check_scope(scope: Any) -> None:
    if scope is None or isinstance(scope, str):
        return
    if not isinstance(scope, list) or not all(isinstance(one, str) for one in scope):
        raise InvalidToken("scope is neither text nor a list of texts")
    stripped = [one.strip() for one in scope]
    if len(set(stripped)) != len(stripped) or not all(stripped):
        raise InvalidToken("scope has an item twice, or an empty one")
