"""The ACLs and the filters that the flags of `groupd acls` stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import astuple

from groupd.coordinator.cli.parse import UsageError
from groupd.coordinator.core.types import CLUSTER_NAME, OPERATIONS_OF, Operation, Resource
from groupd.coordinator.security.acls import ANYTHING, PatternType, Permission, stands_for_addresses
from groupd.protocol.messages.acls import AclBinding, AclFilter

OPERATIONS = {
    operation.name.replace("_", "").lower(): operation
    for operation in Operation
    if operation >= Operation.ALL
}

Named = tuple[Resource, str]


class Resources(Struct, frozen=True):
    """The resources that the flags name, by type."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    cluster: bool = False
    users: Sequence[str] = ()
    pattern: PatternType = PatternType.LITERAL

    def all(self) -> Iterator[Named]:
        for name in self.topics:
            yield Resource.TOPIC, name
        for name in self.groups:
            yield Resource.GROUP, name
        for name in self.transactional_ids:
            yield Resource.TRANSACTIONAL_ID, name
        if self.cluster:
            yield Resource.CLUSTER, CLUSTER_NAME
        for name in self.users:
            yield Resource.USER, name


class Entries(Struct, frozen=True):
    """The part of ACLs that the flags give besides resources: principals, hosts and operations."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[Operation] = ()

    def who(self) -> Iterator[tuple[Permission, str, str]]:
        """Yields (permission, principal, host). Raises UsageError for hosts without principals."""
        for permission, principals, hosts in (
            (Permission.ALLOW, self.allowed, self.allowed_hosts),
            (Permission.DENY, self.denied, self.denied_hosts),
        ):
            if hosts and not principals:
                word = permission.name.lower()
                raise UsageError(f"--{word}-host needs --{word}-principal")
            for principal, host in product(principals, hosts or (ANYTHING,)):
                yield permission, principal, host


def operation_named(text: str) -> Operation:
    """Finds an operation, such as `DescribeConfigs` or `describe-configs`. Raises UsageError."""
    found = OPERATIONS.get(text.replace("_", "").replace("-", "").lower())
    if found is None:
        names = ", ".join(one.name for one in OPERATIONS.values())
        raise UsageError(f"--operation {text}: must be one of {names}")
    return found


def pattern_type(text: str) -> PatternType:
    """Finds a pattern type by name. Raises UsageError."""
    try:
        found = PatternType[text.upper()]
    except KeyError:
        found = PatternType.UNKNOWN
    if not found:
        raise UsageError(f"--resource-pattern-type {text}: must be literal, prefixed, any or match")
    return found


def bindings_of(
    resources: Resources, entries: Entries, *, producer: bool, consumer: bool, idempotent: bool
) -> list[AclBinding]:
    """Returns the ACLs that the flags describe completely. Raises UsageError."""
    if resources.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError("--resource-pattern-type: must be literal or prefixed here")
    asked = _asked(resources, entries, producer=producer, consumer=consumer, idempotent=idempotent)
    who = list(entries.who())
    if not who:
        raise UsageError("say for whom: --allow-principal or --deny-principal")
    made = [
        AclBinding(resource, name, pattern, principal, host, done, permission)
        for resource, name, pattern, done in asked
        for permission, principal, host in who
    ]
    return list(dict.fromkeys(made))


def _asked(
    resources: Resources, entries: Entries, *, producer: bool, consumer: bool, idempotent: bool
) -> list[tuple[Resource, str, PatternType, Operation]]:
    """Returns every resource with every operation. Raises UsageError."""
    if idempotent and not producer:
        raise UsageError("--idempotent needs --producer")
    if not (producer or consumer):
        named = list(resources.all())
        if not named:
            raise UsageError("name a resource: --topic, --group, --cluster, --transactional-id")
        done = entries.operations or (Operation.ALL,)
        return [(*one, _pattern(resources, one), op) for one in named for op in done]
    if entries.operations:
        raise UsageError("--producer and --consumer have operations of their own")
    if not resources.topics or (consumer and not resources.groups):
        raise UsageError("--producer needs --topic; --consumer needs --topic and --group")
    roles: list[tuple[Resource, Sequence[str], str]] = []
    if producer:
        roles.append((Resource.TOPIC, resources.topics, "WRITE DESCRIBE CREATE"))
        roles.append((Resource.TRANSACTIONAL_ID, resources.transactional_ids, "WRITE DESCRIBE"))
        roles.append((Resource.CLUSTER, (CLUSTER_NAME,) * idempotent, "IDEMPOTENT_WRITE"))
    if consumer:
        roles.append((Resource.TOPIC, resources.topics, "READ DESCRIBE"))
        roles.append((Resource.GROUP, resources.groups, "READ"))
    return [
        (resource, name, _pattern(resources, (resource, name)), Operation[word])
        for resource, names, words in roles
        for name in names
        for word in words.split()
    ]


def _pattern(resources: Resources, named: Named) -> PatternType:
    """There is only one cluster, so its name is never a prefix."""
    return PatternType.LITERAL if named[0] == Resource.CLUSTER else resources.pattern


def check_new(acls: Sequence[AclBinding]) -> None:
    """Refuses ACLs that brokers would accept but never apply. Brokers only check some operations on
    each type of resource, and compare addresses, not host names. Raises UsageError."""
    for acl in acls:
        word = Permission(acl.permission).name.lower()
        _check_principal(acl.principal, f"--{word}-principal")
        if acl.host != ANYTHING and not stands_for_addresses(acl.host):
            raise UsageError(
                f"--{word}-host {acl.host}: must be an IP address, or a range such as 10.0.0.0/8"
            )
        resource, asked = Resource(acl.resource_type), Operation(acl.operation)
        known = (Operation.ALL, *OPERATIONS_OF[resource])
        if asked not in known:
            kind = resource.name.lower().replace("_", "-")
            names = ", ".join(one.name for one in known)
            raise UsageError(f"--operation {asked.name}: on a {kind} there are only {names}")


def _check_principal(text: str, flag: str) -> None:
    kind, _, name = text.partition(":")
    if not (kind and name):
        raise UsageError(f"{flag} {text}: a principal has a type, such as User:{kind or name}")


def exactly(acl: AclBinding) -> AclFilter:
    """Returns a filter for this ACL alone."""
    return AclFilter(*astuple(acl))


def filters_of(resources: Resources, principals: Sequence[str] = ()) -> list[AclFilter]:
    """Returns filters for the ACLs of the resources that the flags name (of all resources if they
    name none), for some principals or all. Raises UsageError."""
    for principal in principals:
        _check_principal(principal, "--principal")
    named: list[tuple[Resource, str | None, PatternType]] = [
        (*one, _pattern(resources, one)) for one in resources.all()
    ]
    if not named:
        pattern = resources.pattern
        every = PatternType.ANY if pattern == PatternType.LITERAL else pattern
        named.append((Resource.ANY, None, every))
    return [AclFilter(*one, principal) for one in named for principal in (principals or (None,))]
