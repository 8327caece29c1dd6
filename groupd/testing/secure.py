"""Makes the users and ACLs of a broker, by the requests that a client would send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from groupd.coordinator.faults.errors import check_code
from groupd.coordinator.security.scram_credentials import (
    ITERATIONS_MIN,
    MECHANISMS,
    new_salt,
    salted,
)
from groupd.protocol.messages.acls import AclBinding, CreateAclsRequest
from groupd.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.testing.acl_rules import shown
from groupd.testing.security import Secured

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""
ACLS_VERSION = 3
USERS_VERSION = 0
Ask = Callable[[Any, int], Awaitable[Any]]
"""(request, version) -> reply. Raises RequestRefused."""


def upsertions(
    users: Mapping[str, str], mechanisms: Iterable[str]
) -> list[AlterUserScramCredentialsRequest]:
    """The requests that make `users` (name -> password): one for each mechanism, as a request may
    name a user only once. Hashing takes long, so never call this on an event loop."""
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


async def secure(ask: Ask, secured: Secured) -> None:
    """Make the users and ACLs that the broker was started with. Raises RequestRefused."""
    await add_scram_users(ask, secured.users, secured.scram_mechanisms)
    if secured.acls:
        await add_acls(ask, secured.acls)


async def add_scram_users(ask: Ask, users: Mapping[str, str], mechanisms: Iterable[str]) -> None:
    """`users`: name -> password. Raises RequestRefused."""
    for request in await asyncio.to_thread(upsertions, users, mechanisms):
        await alter_users(ask, request)


async def alter_users(ask: Ask, request: AlterUserScramCredentialsRequest) -> None:
    """Raises RequestRefused."""
    reply = await ask(request, USERS_VERSION)
    for result in reply.results:
        check_code(f"user {result.user}", result.error, result.error_message)


async def add_acls(ask: Ask, acls: Iterable[AclBinding]) -> None:
    """Raises RequestRefused."""
    made = tuple(acls)
    reply = await ask(CreateAclsRequest(made), ACLS_VERSION)
    for acl, result in zip(made, reply.results, strict=True):
        check_code(shown(acl), result.error, result.error_message)
