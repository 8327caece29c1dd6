"""Requests that make and remove users of SCRAM, as a client of Kafka would send them.

A request may name a user only once, so there is one request for each mechanism.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groupd.coordinator.security.scram_credentials import (
    ITERATIONS_MIN,
    MECHANISMS,
    new_salt,
    salted,
)
from groupd.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)


def upsertions(
    users: Mapping[str, str], mechanisms: Iterable[str]
) -> list[AlterUserScramCredentialsRequest]:
    """The requests that make `users` (name -> password). Hashing takes long, so never call this on
    an event loop."""
    return [
        AlterUserScramCredentialsRequest(
            (), tuple(_upsertion(user, password, mechanism) for user, password in users.items())
        )
        for mechanism in mechanisms
        if users
    ]


def _upsertion(user: str, password: str, mechanism: str) -> ScramUpsertion:
    known, salt = MECHANISMS[mechanism], new_salt()
    hashed = salted(known, password, salt, ITERATIONS_MIN)
    return ScramUpsertion(user, known.code, ITERATIONS_MIN, salt, hashed)


def deletions(user: str, mechanisms: Iterable[str]) -> list[AlterUserScramCredentialsRequest]:
    return [
        AlterUserScramCredentialsRequest((ScramDeletion(user, MECHANISMS[mechanism].code),), ())
        for mechanism in mechanisms
    ]
