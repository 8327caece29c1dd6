"""ACLs, and what they decide (docs/spec/security.md#3).

`AclIndex` keeps ACLs by principal, so that a question looks at few of them, however many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from msgspec import Struct

from groupd.coordinator.core.types import CLUSTER_NAME, Operation, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.acls import AclBinding, AclFilter

ANYTHING = "*"
"""As the name of a literal ACL: every resource. As the host of an ACL: every address."""

EVERYBODY = "User:*"
"""The principal of an ACL that is for all principals."""


class PatternType(IntEnum):
    """How the name of an ACL is compared with the name of a resource; Kafka's codes. UNKNOWN, ANY
    and MATCH are only in filters: MATCH finds the ACLs that apply to the resource that the filter
    names."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What an ACL does; Kafka's codes. UNKNOWN and ANY are only in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


Address = IPv4Address | IPv6Address | None
"""The address of a client. None: it is not known; only ACLs for every host apply to it."""

Network = IPv4Network | IPv6Network

_RANGES = (IPv4Network, IPv6Network)

AclHost = Network | Address
"""The addresses that the host of an ACL stands for. None: no address, as for "*" or a host's
name."""

IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""For an operation, the operations that imply it: an ACL that allows READ also allows DESCRIBE. An
ACL that denies READ says nothing about DESCRIBE."""


def _granting(operation: Operation) -> frozenset[int]:
    """The operations of ALLOW ACLs that allow `operation`."""
    return frozenset((operation, Operation.ALL, *IMPLIED_BY.get(operation, ())))


_ALLOWED_BY = {operation: _granting(operation) for operation in Operation}
_DENIED_BY = {operation: frozenset((operation, Operation.ALL)) for operation in Operation}


def parse_address(text: str) -> Address:
    """The address in `text`, in any spelling; None if `text` is no address. An IPv6 address that
    maps an IPv4 address is returned as the IPv4 address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


@lru_cache(maxsize=4096)
def _place(host: str) -> AclHost:
    """The addresses that the host of an ACL stands for. The result is cached: ACLs with the same
    host share it."""
    if "/" not in host:
        return parse_address(host)
    try:
        return _parse_range(host)
    except ValueError:
        return None


def stands_for_addresses(host: str) -> bool:
    """Whether the host of an ACL is an IP address or a range of addresses. An ACL with any other
    host, such as a host's name, never applies."""
    return _place(host) is not None


def _parse_range(text: str) -> Network:
    """The network in `text`. Raises ValueError if `text` is no range of addresses."""
    _, _, bits = text.partition("/")
    if not (bits.isascii() and bits.isdecimal()):
        raise ValueError("the number of bits is missing")
    network = ip_network(text, strict=False)
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise ValueError("IPv4 addresses are written as such")
    return network


def check_binding(acl: AclBinding) -> None:
    """Checks that this ACL may be made (docs/spec/security.md#3.1). Raises ApiError INVALID_REQUEST
    if not."""
    wrong = _mistake(acl)
    if wrong is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, wrong)


def is_filter_only(acl: AclBinding) -> bool:
    """Whether the ACL has a code that only makes sense in a filter."""
    return (
        acl.resource_type == Resource.ANY
        or acl.pattern in (PatternType.ANY, PatternType.MATCH)
        or acl.operation == Operation.ANY
        or acl.permission == Permission.ANY
    )


def _mistake(acl: AclBinding) -> str | None:
    if acl.resource_type == Resource.CLUSTER and acl.name != CLUSTER_NAME:
        return f"the cluster is called {CLUSTER_NAME}"
    if not acl.name:
        return "the name of the resource is empty"
    if ":" not in acl.principal:
        return "the principal has no type: it must look like User:alice"
    if not acl.host:
        return "the host is empty; * means every host"
    if "/" in acl.host:
        try:
            _parse_range(acl.host)
        except ValueError:
            return f"host {acl.host} is not a range of addresses"
    return None


def matches(wanted: AclFilter, acl: AclBinding) -> bool:
    """Whether the filter `wanted` selects this ACL. Operations are compared as they stand: none
    implies another."""
    return (
        wanted.resource_type in (Resource.ANY, acl.resource_type)
        and wanted.operation in (Operation.ANY, acl.operation)
        and wanted.permission in (Permission.ANY, acl.permission)
        and wanted.principal in (None, acl.principal)
        and wanted.host in (None, acl.host)
        and _matches_name(wanted, acl)
    )


def _matches_name(wanted: AclFilter, acl: AclBinding) -> bool:
    pattern, name = wanted.pattern, wanted.name
    if pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
        return False
    if name is None or name == acl.name:
        return True
    if pattern != PatternType.MATCH:
        return False
    if acl.pattern == PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name == ANYTHING


class Decision(Struct, frozen=True):
    """`acl`: the ACL that led to the decision; None if no ACL applied."""

    allowed: bool
    acl: AclBinding | None = None


_Acls = dict[AclBinding, AclHost]
"""ACLs, each with the addresses of its host, so that a question does not have to parse the host.
The order is kept, so that the same ACLs always give the same answer."""


class _Patterns:
    """The ACLs of one type of resource, by the name that they are for."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, _Acls] = {}
        self.prefixed: dict[str, _Acls] = {}
        self.lengths: Counter[int] = Counter()
        """How many different prefixes of each length there are."""

    def _table(self, acl: AclBinding) -> dict[str, _Acls]:
        return self.prefixed if acl.pattern == PatternType.PREFIXED else self.literal

    def add(self, acl: AclBinding, place: AclHost) -> None:
        table = self._table(acl)
        if acl.name not in table and table is self.prefixed:
            self.lengths[len(acl.name)] += 1
        table.setdefault(acl.name, {})[acl] = place

    def remove(self, acl: AclBinding) -> None:
        table = self._table(acl)
        acls = table[acl.name]
        del acls[acl]
        if acls:
            return
        del table[acl.name]
        if table is self.prefixed:
            self.lengths[len(acl.name)] -= 1
            if not self.lengths[len(acl.name)]:
                del self.lengths[len(acl.name)]

    @property
    def empty(self) -> bool:
        return not self.literal and not self.prefixed

    def covering(self, name: str) -> Iterator[_Acls]:
        """The ACLs whose pattern matches the name."""
        literal, prefixed = self.literal, self.prefixed
        if name in literal:
            yield literal[name]
        if ANYTHING in literal and name != ANYTHING:
            yield literal[ANYTHING]
        for length in self.lengths:
            if length <= len(name) and (prefix := name[:length]) in prefixed:
                yield prefixed[prefix]


_ALL_PRINCIPALS = ""
"""The key under which the ACLs of all principals are kept together; no ACL has it as its
principal."""


class AclIndex:
    """A set of ACLs. A question costs one look-up for each length that prefixes of this principal
    have, and a look at each ACL that is for this principal and resource."""

    def __init__(self, acls: Iterable[AclBinding] = ()) -> None:
        self._acls: _Acls = {}
        self._patterns: dict[tuple[int, str], _Patterns] = {}
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        return len(self._acls)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self._acls)

    def __contains__(self, acl: object) -> bool:
        return acl in self._acls

    def add(self, acl: AclBinding) -> None:
        """Add an ACL, unless it is there already."""
        if acl in self._acls:
            return
        place = self._acls[acl] = _place(acl.host)
        for principal in (acl.principal, _ALL_PRINCIPALS):
            key = (acl.resource_type, principal)
            self._patterns.setdefault(key, _Patterns()).add(acl, place)

    def remove(self, acl: AclBinding) -> None:
        """Remove an ACL if it is there."""
        if acl not in self._acls:
            return
        del self._acls[acl]
        for principal in (acl.principal, _ALL_PRINCIPALS):
            key = (acl.resource_type, principal)
            patterns = self._patterns[key]
            patterns.remove(acl)
            if patterns.empty:
                del self._patterns[key]

    def decide(
        self,
        principal: str,
        address: Address,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        if_none_found: bool = False,
    ) -> Decision:
        """Decides as docs/spec/security.md#3 says, from step 2 on. `if_none_found`: the value of
        `allow.everyone.if.no.acl.found`."""
        allowed_by, denied_by = _ALLOWED_BY[operation], _DENIED_BY[operation]
        allow: AclBinding | None = None
        for patterns in self._of(principal, resource):
            for acls in patterns.covering(name):
                for acl, place in acls.items():
                    if acl.permission == Permission.DENY:
                        if acl.operation in denied_by and _is_from(acl, place, address):
                            return Decision(False, acl)
                    elif (
                        allow is None
                        and acl.operation in allowed_by
                        and _is_from(acl, place, address)
                    ):
                        allow = acl
        if allow is not None:
            return Decision(True, allow)
        if if_none_found and not self._has_any(resource, name):
            return Decision(True)
        return Decision(False)

    def allows_any(
        self,
        principal: str,
        address: Address,
        operation: Operation,
        resource: Resource,
    ) -> bool:
        """Whether the ACLs allow the operation on at least one resource of this type.
        `allow.everyone.if.no.acl.found` does not count. Only ACLs for the operation itself or for
        ALL count, as in Kafka."""
        wanted = _DENIED_BY[operation]
        allowed: list[AclBinding] = []
        denied_names: set[str] = set()
        denied_prefixes: set[str] = set()
        for acl, place in self._concerning(principal, resource):
            if acl.operation not in wanted or not _is_from(acl, place, address):
                continue
            if acl.permission == Permission.ALLOW:
                allowed.append(acl)
            elif acl.pattern == PatternType.PREFIXED:
                denied_prefixes.add(acl.name)
            else:
                denied_names.add(acl.name)
        if ANYTHING in denied_names:
            return False
        lengths = {len(prefix) for prefix in denied_prefixes}
        return any(
            _is_everything(acl)
            or not (
                (acl.pattern == PatternType.LITERAL and acl.name in denied_names)
                or any(acl.name[:length] in denied_prefixes for length in lengths)
            )
            for acl in allowed
        )

    def _of(self, principal: str, resource: Resource) -> Iterator[_Patterns]:
        """The patterns of the ACLs for this principal, then of those for all principals."""
        for who in (principal, EVERYBODY):
            patterns = self._patterns.get((resource, who))
            if patterns is not None:
                yield patterns
            if principal == EVERYBODY:
                return

    def _concerning(
        self, principal: str, resource: Resource
    ) -> Iterator[tuple[AclBinding, AclHost]]:
        for patterns in self._of(principal, resource):
            for table in (patterns.literal, patterns.prefixed):
                for acls in table.values():
                    yield from acls.items()

    def _has_any(self, resource: Resource, name: str) -> bool:
        patterns = self._patterns.get((resource, _ALL_PRINCIPALS))
        return patterns is not None and next(patterns.covering(name), None) is not None


def _is_everything(acl: AclBinding) -> bool:
    return acl.pattern == PatternType.LITERAL and acl.name == ANYTHING


def _is_from(acl: AclBinding, place: AclHost, address: Address) -> bool:
    """Whether the ACL applies to clients at `address`. `place`: what the ACL's host stands for."""
    if acl.host == ANYTHING:
        return True
    if place is None or address is None:
        return False
    return place == address or (isinstance(place, _RANGES) and address in place)
