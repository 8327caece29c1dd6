"""Who may do what: the ACLs, kept in the store, and what they decide for each client.

docs/spec/security.md#3. `coordinator.core.acls` decides; here are super users, the audit log, the
store, and the answers that are kept so that a client's next request does not ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from msgspec import Struct, json

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.acls import AclIndex, Decision, parse_address
from groupd.coordinator.core.slices import Turn, Work
from groupd.coordinator.core.types import Access, Operation, Resource
from groupd.coordinator.security.audit import (
    Audit,
    Denial,
    acl_text,
    operation_text,
    resource_text,
)
from groupd.coordinator.security_settings import super_users
from groupd.protocol.messages.acls import AclBinding
from groupd.storage.log import SecurityEntry

KIND = "acl"
"""The kind of ACLs among the entries of the store. The key of an entry is the whole ACL."""

KEPT_MAX = 1024
"""Answers that are kept for one client; beyond it they are all forgotten."""

KEPT_NAME_MAX = 256
"""Answers about longer names are not kept."""

_BITS = 8
_ANY_NAME = 1 << 2 * _BITS
"""Marks answers about no name in particular."""

ACL_WEIGHT = 16
"""To add or remove one ACL counts as so many items of `slices.Work`."""


class SecurityStore(Protocol):
    """The store, as far as ACLs need it."""

    async def security_entries(self, kind: str) -> list[tuple[str, str]]: ...

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None: ...


class AclChanges(Struct, frozen=True):
    """What one request has changed."""

    added: tuple[AclBinding, ...] = ()
    removed: tuple[AclBinding, ...] = ()


class Unrestricted(Access):
    """May do everything, in the name of `principal`: there is no authorizer."""

    def __init__(self, principal: str) -> None:
        self.principal = principal


class Authorizer:
    """Of one process. `acls` are changed by `change` only, in the process that has the store, and
    by `apply` in others."""

    def __init__(self, config: CoordinatorConfig, audit: Audit) -> None:
        self.enabled = config.authorizer_class_name != ""
        """Otherwise everybody may do everything, and there are no ACLs."""
        self.acls = AclIndex()
        self.changing = asyncio.Lock()
        """Held from the look at the ACLs to the end of their change."""
        self.version = 0
        """Goes up with every change of the ACLs: kept answers of before do not count any more."""
        self.allowed = 0
        self.denied = 0
        """Answers to questions that were asked by name."""
        self.followers: list[Callable[[AclChanges], Awaitable[None]]] = []
        """Called with every change, which is durable; they return when it has taken effect."""
        self.audit = audit
        self._super_users = super_users(config)
        self._if_none_found = config.allow_everyone_if_no_acl_found
        self._clients: WeakValueDictionary[tuple[str, str], ClientAccess] = WeakValueDictionary()

    def access(self, principal: str, host: str) -> Access:
        """What `principal` may do from `host`, an address in Kafka's form "/127.0.0.1". Changes of
        the ACLs count for it at once."""
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
        """What the ACLs say, for one who is no super user."""
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
        """Read all ACLs. Raises LogError."""
        entries = await store.security_entries(KIND) if self.enabled else []
        await self._apply_in_turns(AclChanges(tuple([_acl(key) for key, _ in entries])), turn)

    async def change(self, store: SecurityStore, changes: AclChanges, turn: Turn) -> None:
        """Make a change durable, then effective; `changing` must be held. Raises LogError: nothing
        has changed."""
        work = Work()
        entries = []
        for acls, value in ((changes.removed, None), (changes.added, "")):
            for acl in acls:
                if work.enough(ACL_WEIGHT):
                    await turn()
                entries.append(SecurityEntry(KIND, _key(acl), value))
        await store.change_security(entries)
        await self._apply_in_turns(changes, turn)
        for follow in self.followers:
            await follow(changes)

    async def _apply_in_turns(self, changes: AclChanges, turn: Turn) -> None:
        work = Work()
        for acls, act in ((changes.removed, self.acls.remove), (changes.added, self.acls.add)):
            for acl in acls:
                if work.enough(ACL_WEIGHT):
                    self.version += 1
                    await turn()
                act(acl)
        self.version += 1

    def apply(self, changes: AclChanges) -> None:
        """Take over a change that is durable already."""
        for acl in changes.removed:
            self.acls.remove(acl)
        for acl in changes.added:
            self.acls.add(acl)
        self.version += 1


class ClientAccess(Access):
    """What one principal may do from one address. All its connections share it."""

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

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        authorizer = self._authorizer
        if self.sees(operation, resource, name):
            authorizer.allowed += 1
            if authorizer.audit.grants:
                rule = self._rule(operation, resource, name)
                asked = operation_text(operation), resource_text(resource, name)
                authorizer.audit.granted(self.principal, self.host, *asked, rule)
            return True
        authorizer.denied += 1
        rule = self._rule(operation, resource, name)
        asked = operation_text(operation), resource_text(resource, name)
        authorizer.audit.denied(Denial(self.principal, self.host, *asked, rule))
        return False

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
        """Those that still count."""
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
        # Kafka asks about a topic of this name first.
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
