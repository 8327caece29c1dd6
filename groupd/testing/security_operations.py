"""Operations on users and ACLs, and the logins of clients."""

from __future__ import annotations

from collections.abc import Iterable

from groupd.coordinator.faults.errors import HarnessError, check_code
from groupd.protocol.messages.acls import (
    AclFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from groupd.testing.engine import Engine
from groupd.testing.security import TOKEN_LIFETIME_S, Login, MechanismName
from groupd.testing.users_and_acls import (
    ACLS_VERSION,
    AclRule,
    add_acls,
    add_scram_users,
    alter_users,
    deletions,
    parse,
    shown,
)


class SecurityOperations:
    """The calls of one engine. They raise RequestRefused, and HarnessError for unknown users."""

    _engine: Engine

    async def login(self, user: str | None, mechanism: MechanismName | None = None) -> Login:
        """How a client connects as `user`; None = without a login."""
        return self._engine.secured.login(user, mechanism)

    async def token(self, user: str, lifetime_s: int = TOKEN_LIFETIME_S) -> str:
        """A signed token for OAUTHBEARER, valid for `lifetime_s` seconds from now.

        >>> secured.token("billing").count(".")
        2
        """
        return self._engine.secured.token(user, lifetime_s)

    async def token_file(self, user: str) -> str:
        """The path of a file that holds a token."""
        return self._engine.secured.token_file(user)

    # Users

    async def users(self) -> list[str]:
        """The names of the users, sorted.

        >>> secured.users()
        ['billing']
        """
        return sorted(self._engine.secured.users)

    async def add_user(self, name: str, password: str) -> None:
        """Add a user, or change its password. It can log in by SCRAM and OAUTHBEARER, and with a
        certificate of its own. It can log in by PLAIN only after a restart of the broker.

        >>> secured.add_user("audit", "secret")
        >>> consumer = secured.consumer("audit", "orders", user="audit")
        """
        secured = self._engine.secured
        await add_scram_users(self._engine.ask, {name: password}, secured.scram_mechanisms)
        secured.users[name] = password

    async def remove_user(self, name: str) -> None:
        """Remove a user. Its open connections stay, as in Kafka.

        >>> secured.remove_user("billing")
        """
        secured = self._engine.secured
        if name not in secured.users:
            raise HarnessError(f"no user {name!r}")
        for request in deletions(name, secured.scram_mechanisms):
            await alter_users(self._engine.ask, request)
        del secured.users[name]

    # ACLs

    async def acls(self) -> list[str]:
        """All ACLs, as rules, sorted.

        >>> secured.acls()
        ['billing may READ group billing', 'billing may READ topic orders']
        """
        reply = await self._engine.ask(DescribeAclsRequest(AclFilter()), ACLS_VERSION)
        check_code("ACLs", reply.error, reply.error_message)
        return sorted(shown(acl) for found in reply.resources for acl in found.acls)

    async def add_acls(self, rules: Iterable[AclRule]) -> None:
        """Add ACLs: `PRINCIPAL may [not] OPERATION,... RESOURCE NAME [from HOST]`, as
        docs/testing.md#security describes.

        >>> secured.add_acls(["billing may WRITE topic orders-*"])
        """
        await add_acls(self._engine.ask, parse(rules))

    async def remove_acls(self, rules: Iterable[AclRule]) -> None:
        """Remove ACLs, each written as it was added. An ACL that does not exist is ignored.

        >>> secured.remove_acls(["billing may READ topic orders"])
        """
        filters = [
            AclFilter(a.resource_type, a.name, a.pattern, a.principal, a.host, a.operation,
                      a.permission)
            for a in parse(rules)
        ]  # fmt: skip
        reply = await self._engine.ask(DeleteAclsRequest(tuple(filters)), ACLS_VERSION)
        for result in reply.results:
            check_code("ACL", result.error, result.error_message)
