"""Users that log in with SCRAM (KIP-554): DescribeUserScramCredentials (50),
AlterUserScramCredentials (51). `docs/spec/security.md#6`.

`mechanism` is 1 for SCRAM-SHA-256, 2 for SCRAM-SHA-512.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.secret import Secret


class DescribeUserScramCredentialsRequest(Struct, frozen=True):
    """`users`: their names; None or empty = all users."""

    users: tuple[str, ...] | None


class DescribedUser(Struct, frozen=True):
    """`credentials`: the user's (mechanism, iterations) pairs."""

    user: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    credentials: tuple[tuple[int, int], ...] = ()


class DescribeUserScramCredentialsReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    results: Sequence[DescribedUser] = ()


class ScramDeletion(Struct, frozen=True):
    user: str
    mechanism: int


class ScramUpsertion(Struct, frozen=True):
    """`salted_password`: the password as the client has hashed it. The server can use it just like
    the password, so it is a secret."""

    user: str
    mechanism: int
    iterations: int
    salt: Secret
    salted_password: Secret


class AlterUserScramCredentialsRequest(Struct, frozen=True):
    deletions: tuple[ScramDeletion, ...]
    upsertions: tuple[ScramUpsertion, ...]


class AlteredUser(Struct, frozen=True):
    user: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class AlterUserScramCredentialsReply(Struct, frozen=True):
    results: Sequence[AlteredUser]
