"""Users and ACLs of a broker: ACLs as a test writes them, `"billing may READ topic orders-*"`, and
the requests that make them and the users, as a client would send them.

A rule is PRINCIPAL `may` or `may not` OPERATION,... RESOURCE NAME, and `from HOST` if it is for one
address only. PRINCIPAL: a user's name, `everybody`, or Kafka's form `User:alice`. RESOURCE: topic,
group, cluster (without a name), transactional-id or user. NAME: `*` stands for every resource,
`orders-*` for all whose names begin so. A rule that does not fit into a line is a dictionary with
the fields of `AclBinding`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeAlias

from groupd.coordinator.core.types import CLUSTER_NAME, Operation, Resource
from groupd.coordinator.faults.errors import HarnessError, check_code
from groupd.coordinator.security.acls import ANYTHING, EVERYBODY, PatternType, Permission
from groupd.coordinator.security.scram_credentials import (
    ITERATIONS_MIN,
    MECHANISMS,
    new_salt,
    salted,
)
from groupd.coordinator.suggest import did_you_mean
from groupd.protocol.messages.acls import AclBinding, CreateAclsRequest
from groupd.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.testing.security import Secured

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

AclRule: TypeAlias = str | Mapping[str, str]

FORM = "PRINCIPAL may [not] OPERATION[,OPERATION] RESOURCE NAME [from HOST]"
_DEFAULTS = {"name": ANYTHING, "pattern": "literal", "host": ANYTHING, "permission": "allow"}
_FIELDS = ("principal", "operation", "resource_type", *_DEFAULTS)
ACLS_VERSION = 3
USERS_VERSION = 0
Ask = Callable[[Any, int], Awaitable[Any]]
"""Sends a request: (request, version) -> reply. Raises RequestRefused."""


def parse(rules: Iterable[AclRule]) -> list[AclBinding]:
    """The ACLs that the rules stand for. Raises HarnessError."""
    found: list[AclBinding] = []
    for rule in rules:
        found += _line(rule) if isinstance(rule, str) else [_fields(rule)]
    return list(dict.fromkeys(found))


def shown(acl: AclBinding) -> str:
    """The ACL as a rule."""
    who = "everybody" if acl.principal == EVERYBODY else acl.principal.removeprefix("User:")
    may = "may" if acl.permission == Permission.ALLOW else "may not"
    resource = Resource(acl.resource_type)
    kind = resource.name.lower().replace("_", "-")
    name = "" if resource is Resource.CLUSTER else f" {acl.name}"
    star = "*" if acl.pattern == PatternType.PREFIXED else ""
    host = "" if acl.host == ANYTHING else f" from {acl.host}"
    return f"{who} {may} {Operation(acl.operation).name} {kind}{name}{star}{host}"


def _line(rule: str) -> list[AclBinding]:
    words = rule.split()
    host = ANYTHING
    if len(words) > 2 and words[-2] == "from":
        host = words[-1]
        del words[-2:]
    if len(words) < 4 or words[1] != "may":
        raise HarnessError(f"ACL {rule!r}: write {FORM}")
    principal = _principal(words[0])
    permission = Permission.ALLOW
    if words[2] == "not":
        permission = Permission.DENY
        del words[2]
    operations, kind, *names = words[2:]
    resource = _code(Resource, kind, "resource", rule)
    if len(names) != (0 if resource is Resource.CLUSTER else 1):
        raise HarnessError(f"ACL {rule!r}: write {FORM}; only a cluster has no name")
    name, pattern = (CLUSTER_NAME, PatternType.LITERAL) if not names else _pattern(names[0])
    return [
        AclBinding(
            int(resource),
            name,
            int(pattern),
            principal,
            host,
            int(_code(Operation, operation, "operation", rule)),
            int(permission),
        )
        for operation in operations.split(",")
    ]


def _fields(rule: Mapping[str, str]) -> AclBinding:
    for name in rule:
        if name not in _FIELDS:
            raise HarnessError(f"ACL field {name!r}{did_you_mean(name, _FIELDS)}: {_FIELDS}")
    missing = [name for name in _FIELDS if name not in rule and name not in _DEFAULTS]
    if missing:
        raise HarnessError(f"ACL {dict(rule)}: {missing[0]} is missing")
    given = {**_DEFAULTS, **rule}
    where = str(dict(rule))
    resource = _code(Resource, given["resource_type"], "resource", where)
    cluster = resource is Resource.CLUSTER and "name" not in rule
    return AclBinding(
        int(resource),
        CLUSTER_NAME if cluster else given["name"],
        int(_code(PatternType, given["pattern"], "pattern", where)),
        _principal(given["principal"]),
        given["host"],
        int(_code(Operation, given["operation"], "operation", where)),
        int(_code(Permission, given["permission"], "permission", where)),
    )


def _principal(text: str) -> str:
    if text == "everybody":
        return EVERYBODY
    return text if ":" in text else f"User:{text}"


def _pattern(name: str) -> tuple[str, PatternType]:
    if name != ANYTHING and name.endswith("*"):
        return name.removesuffix("*"), PatternType.PREFIXED
    return name, PatternType.LITERAL


def _code(codes: Any, text: str, what: str, rule: str) -> IntEnum:
    """The code of a name. UNKNOWN, ANY and MATCH are refused: they are for filters only."""
    name = text.upper().replace("-", "_")
    known = [one for one in codes.__members__ if one not in ("UNKNOWN", "ANY", "MATCH")]
    if name not in known:
        hint = did_you_mean(name, known)
        raise HarnessError(f"ACL {rule!r}: no {what} {text!r}{hint}; there are {', '.join(known)}")
    found: IntEnum = codes[name]
    return found


def upsertions(
    users: Mapping[str, str], mechanisms: Iterable[str]
) -> list[AlterUserScramCredentialsRequest]:
    """The requests that make `users` (name -> password, not empty): one for each mechanism, because
    a request may name a user only once. Hashing takes long, so never call this on an event loop."""
    return [
        AlterUserScramCredentialsRequest(
            (), tuple(_upsertion(user, password, mechanism) for user, password in users.items())
        )
        for mechanism in mechanisms
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


async def add_users_and_acls(ask: Ask, secured: Secured) -> None:
    """Make the users and ACLs that the broker was started with. Raises RequestRefused."""
    if secured.users:
        await add_scram_users(ask, secured.users, secured.scram_mechanisms)
    if secured.acls:
        await add_acls(ask, secured.acls)


async def add_scram_users(ask: Ask, users: Mapping[str, str], mechanisms: Iterable[str]) -> None:
    """Add users, or change their passwords. `users`: name -> password. Raises RequestRefused."""
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
