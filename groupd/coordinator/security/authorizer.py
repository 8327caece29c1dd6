"""The authorizer: keeps the ACLs of the store and decides with them what each client may do
(docs/spec/security.md#3).

`acls` makes the decisions. This module has the super users, the audit log, the store, and the
decisions that are kept, so that the next request of a client needs no new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

import structlog
from msgspec import Struct, json

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.security_settings import super_users
from groupd.coordinator.core.slices import Pace, Turn
from groupd.coordinator.core.types import Access, Operation, Resource
from groupd.coordinator.security.acls import AclIndex, Decision, Permission, parse_address
from groupd.coordinator.security.audit import (
    Audit,
    AuditedDecision,
    acl_text,
    api_text,
    operation_text,
    resource_text,
)
from groupd.protocol.messages.acls import AclBinding
from groupd.storage.log import SecurityEntry

log = structlog.get_logger("groupd.authorizer")

KIND = "acl"
"""The kind of ACLs among the entries of the store. The key of an entry is the whole ACL."""

KEPT_MAX = 1024
"""The most decisions that are kept for one client. Beyond that they are all forgotten."""

KEPT_NAME_MAX = 256
"""Decisions about names that have more characters than this are not kept."""

_BITS = 8
_ANY_NAME = 1 << 2 * _BITS
"""Marks decisions about a type of resource without a name."""

ACL_WEIGHT = 16
"""The weight of adding or removing one ACL, in items of `Pace`."""


class SecurityStore(Protocol):
    """What ACLs need of the store."""

    async def security_entries(self, kind: str) -> list[tuple[str, str]]: ...

    async def security_entries_of(
        self, kind: str, keys: Sequence[str]
    ) -> list[tuple[str, str]]: ...

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None: ...


class AclChanges(Struct, frozen=True):
    """The ACLs that one request has added and removed."""

    added: tuple[AclBinding, ...] = ()
    removed: tuple[AclBinding, ...] = ()


class Unrestricted(Access):
    """The access of a client that may do everything, because there is no authorizer."""

    def __init__(self, principal: str) -> None:
        self.principal = principal


class Authorizer:
    """The rights of all clients of one broker. Only `load`, `read` and `change` change `acls`."""

    def __init__(self, config: CoordinatorConfig, audit: Audit) -> None:
        self.enabled = config.authorizer_class_name != ""
        """Whether ACLs count. If not, there are none, and every client may do everything."""
        self.acls = AclIndex()
        self.version = 0
        """Goes up with every change of the ACLs. Decisions that were kept before it do not count
        any more."""
        self.allowed = 0
        self.denied = 0
        """`allowed` and `denied` count the decisions about names that a client asked for."""
        self.audit = audit
        self._super_users = super_users(config)
        self._if_none_found = config.allow_everyone_if_no_acl_found
        self._clients: WeakValueDictionary[tuple[str, str], ClientAccess] = WeakValueDictionary()

    def access(self, principal: str, host: str) -> Access:
        """What `principal` may do from `host`, an address in Kafka's form "/127.0.0.1". Later
        changes of the ACLs have effect on it at once."""
        if not self.enabled:
            return Unrestricted(principal)
        found = self._clients.get((principal, host))
        if found is None:
            found = self._clients[principal, host] = ClientAccess(self, principal, host)
        return found

    def is_super(self, principal: str) -> bool:
        return principal in self._super_users

    def decide(
        self, client: ClientAccess, operation: Operation, resource: Resource, name: str
    ) -> Decision:
        """The decision of the ACLs for a client that is no super user."""
        return self.acls.decide(
            client.principal,
            client.address,
            operation,
            resource,
            name,
            if_none_found=self._if_none_found,
        )

    # Change -------------------------------------------------------------------------------

    async def load(self, store: SecurityStore, turn: Turn) -> None:
        """Reads all ACLs. Raises LogError."""
        if self._super_users and not self.enabled:
            log.warning("everybody may do everything: super.users needs authorizer.class.name")
        entries = await store.security_entries(KIND) if self.enabled else []
        stored = dict.fromkeys([_acl(key) for key, _ in entries])
        gone = tuple([acl for acl in self.acls if acl not in stored])
        await self._apply(AclChanges(self._missing(stored), gone), turn)

    async def read(self, store: SecurityStore, keys: Sequence[str], turn: Turn) -> None:
        """Reads some ACLs by their keys. Raises LogError."""
        if not self.enabled:
            return
        entries = await store.security_entries_of(KIND, keys)
        stored = dict.fromkeys([_acl(key) for key, _ in entries])
        gone = [acl for acl in map(_acl, keys) if acl not in stored and acl in self.acls]
        await self._apply(AclChanges(self._missing(stored), tuple(gone)), turn)

    def _missing(self, stored: Iterable[AclBinding]) -> tuple[AclBinding, ...]:
        return tuple([acl for acl in stored if acl not in self.acls])

    async def change(self, store: SecurityStore, changes: AclChanges, turn: Turn) -> None:
        """Makes a change durable, then effective. Only inside `CatalogueChanges.make`. Raises
        LogError: then nothing has changed here, but the store may have the change."""
        pace = Pace()
        entries = []
        for acls, value in ((changes.removed, None), (changes.added, "")):
            for acl in acls:
                if pace.due(ACL_WEIGHT):
                    await turn()
                entries.append(SecurityEntry(KIND, _key(acl), value))
        await store.change_security(entries)
        await self._apply(changes, turn)

    async def _apply(self, changes: AclChanges, turn: Turn) -> None:
        """Applies a change in an order that is safe for the requests in between: they must not be
        allowed what the ACLs allow neither before nor after the change. So new denials come first,
        and old ones go last."""
        pace = Pace()
        for acls, act, permission in (
            (changes.added, self.acls.add, Permission.DENY),
            (changes.removed, self.acls.remove, Permission.ALLOW),
            (changes.added, self.acls.add, Permission.ALLOW),
            (changes.removed, self.acls.remove, Permission.DENY),
        ):
            for acl in acls:
                if acl.permission != permission:
                    continue
                if pace.due(ACL_WEIGHT):
                    self.version += 1
                    await turn()
                act(acl)
        self.version += 1


class ClientAccess(Access):
    """What one principal may do from one address. All its connections share this object."""

    restricted = True

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self.principal = principal
        self.host = host
        self.address = parse_address(host.removeprefix("/"))
        self._super = authorizer.is_super(principal)
        if self._super:
            self.restricted = False
        self._authorizer = authorizer
        self._kept_version = authorizer.version
        self._kept: dict[tuple[str, int], bool] = {}

    @property
    def version(self) -> int:  # type: ignore[override] # a constant where nothing is restricted
        return self._authorizer.version

    def allows(
        self, operation: Operation, resource: Resource, name: str, request: type | None = None
    ) -> bool:
        authorizer = self._authorizer
        if self.sees(operation, resource, name):
            authorizer.allowed += 1
            if authorizer.audit.grants:
                authorizer.audit.granted(self._decision(operation, resource, name, request))
            return True
        authorizer.denied += 1
        authorizer.audit.denied(self._decision(operation, resource, name, request))
        return False

    def _decision(
        self, operation: Operation, resource: Resource, name: str, request: type | None
    ) -> AuditedDecision:
        return AuditedDecision(
            self.principal,
            self.host,
            operation_text(operation),
            resource_text(resource, name),
            api_text(request),
            self._rule(operation, resource, name),
        )

    def sees(self, operation: Operation, resource: Resource, name: str) -> bool:
        key = (name, resource << _BITS | operation)
        allowed = self._answers().get(key)
        if allowed is None:
            allowed = self._super or self._decide(operation, resource, name).allowed
            self._keep(key, allowed)
        return allowed

    def allows_any(self, operation: Operation, resource: Resource) -> bool:
        key = ("", _ANY_NAME | resource << _BITS | operation)
        allowed = self._answers().get(key)
        if allowed is None:
            allowed = self._super or self._decide_any(operation, resource)
            self._keep(key, allowed)
        return allowed

    def _answers(self) -> dict[tuple[str, int], bool]:
        """The kept decisions, without those that do not count any more."""
        if self._kept_version != self._authorizer.version:
            self._kept_version = self._authorizer.version
            self._kept.clear()
        return self._kept

    def _keep(self, key: tuple[str, int], allowed: bool) -> None:
        if len(key[0]) > KEPT_NAME_MAX:
            return
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[key] = allowed

    def _decide(self, operation: Operation, resource: Resource, name: str) -> Decision:
        return self._authorizer.decide(self, operation, resource, name)

    def _decide_any(self, operation: Operation, resource: Resource) -> bool:
        # Kafka first asks about a resource of this name.
        if self._decide(operation, resource, "hardcode").allowed:
            return True
        return self._authorizer.acls.allows_any(self.principal, self.address, operation, resource)

    def _rule(self, operation: Operation, resource: Resource, name: str) -> str:
        """The name of the rule that has decided, for the audit log."""
        if self._super:
            return "SuperUser"
        decision = self._decide(operation, resource, name)
        if decision.acl is not None:
            return acl_text(decision.acl)
        return "DefaultAllow" if decision.allowed else "DefaultDeny"


def _key(acl: AclBinding) -> str:
    return json.encode(acl).decode()


def _acl(key: str) -> AclBinding:
    return json.decode(key, type=AclBinding)
