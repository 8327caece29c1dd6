"""Delegation tokens: CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken
(40), DescribeDelegationToken (41).

groupd has no delegation tokens, so the replies only have an error. Principals are (type, name),
such as ("User", "alice"). HMACs are secrets.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.secret import Secret


class CreateDelegationTokenRequest(Struct, frozen=True):
    """`owner_type`, `owner_name`: None = the principal that sends the request."""

    renewers: tuple[tuple[str, str], ...]
    max_lifetime_ms: int = -1
    owner_type: str | None = None
    owner_name: str | None = None


class CreateDelegationTokenReply(Struct, frozen=True):
    """`requester`: the principal that has sent the request."""

    error: ErrorCode = ErrorCode.NONE
    owner: tuple[str, str] = ("", "")
    requester: tuple[str, str] = ("", "")


class RenewDelegationTokenRequest(Struct, frozen=True):
    hmac: Secret
    renew_period_ms: int


class ExpireDelegationTokenRequest(Struct, frozen=True):
    hmac: Secret
    expiry_time_period_ms: int


class DelegationTokenExpiryReply(Struct, frozen=True):
    """The reply to RenewDelegationToken and to ExpireDelegationToken."""

    error: ErrorCode = ErrorCode.NONE


class DescribeDelegationTokenRequest(Struct, frozen=True):
    """`owners`: None = the tokens of all principals."""

    owners: tuple[tuple[str, str], ...] | None


class DescribeDelegationTokenReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
