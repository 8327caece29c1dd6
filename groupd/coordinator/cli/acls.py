"""`groupd acls`: its commands have the flags of Kafka's kafka-acls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from msgspec.structs import astuple

from groupd.coordinator.cli.acl_flags import (
    Entries,
    Resources,
    bindings_of,
    check_new,
    exactly,
    filters_of,
    operation_named,
    pattern_type,
)
from groupd.coordinator.cli.command_errors import note
from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    asked_cluster,
    is_json,
)
from groupd.coordinator.cli.parse import UsageError
from groupd.coordinator.cli.tables import json_line, table
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security.acls import PatternType, Permission
from groupd.protocol.messages.acls import (
    AclBinding,
    CreateAclsReply,
    CreateAclsRequest,
    DeleteAclsReply,
    DeleteAclsRequest,
    DescribeAclsReply,
    DescribeAclsRequest,
)

COLUMNS = ("resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")

app = typer.Typer(
    help="ACLs: who may do what with topics, groups, transactional ids and the cluster. They take "
    "effect if the broker has an authorizer.class.name.",
    no_args_is_help=True,
)

TopicsOption = Annotated[list[str] | None, typer.Option("--topic", help="A topic; * means all.")]
GroupNamesOption = Annotated[
    list[str] | None, typer.Option("--group", help="A group; * means all.")
]
TransactionalIdsOption = Annotated[
    list[str] | None, typer.Option("--transactional-id", help="A transactional id; * means all.")
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
UsersOption = Annotated[
    list[str] | None, typer.Option("--user-principal", help="A user, for its delegation tokens.")
]
PatternOption = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        help="literal; or prefixed, for all resources whose names begin with the given one. list "
        "and remove also take any, and match: the ACLs that apply to a resource of that name.",
    ),
]
Allowed = Annotated[
    list[str] | None,
    typer.Option("--allow-principal", help="Who may, such as User:alice; User:* means everybody."),
]
Denied = Annotated[
    list[str] | None, typer.Option("--deny-principal", help="Who may not; this wins.")
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host",
        help="From which IP address, or range such as 10.0.0.0/8; none: from everywhere.",
    ),
]
DeniedHosts = Annotated[
    list[str] | None, typer.Option("--deny-host", help="The same for --deny-principal.")
]
OperationsOption = Annotated[
    list[str] | None,
    typer.Option("--operation", help="What, such as Read or DescribeConfigs; none: everything."),
]
Producer = Annotated[bool, typer.Option("--producer", help="What a producer to --topic needs.")]
Consumer = Annotated[
    bool, typer.Option("--consumer", help="What a consumer of --topic in --group needs.")
]
Idempotent = Annotated[
    bool, typer.Option("--idempotent", help="With --producer: idempotent writes as well.")
]


@app.command("list")
def list_acls(
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    topic: TopicsOption = None,
    group: GroupNamesOption = None,
    transactional_id: TransactionalIdsOption = None,
    cluster: ClusterOption = False,
    user_principal: UsersOption = None,
    pattern: PatternOption = "literal",
    principal: Annotated[
        list[str] | None, typer.Option("--principal", help="Only ACLs of this principal.")
    ] = None,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Show the ACLs of the named resources, or all ACLs if no resource is named."""
    as_json = is_json(output)
    resources = _resources(topic, group, transactional_id, cluster, user_principal, pattern)
    filters = filters_of(resources, principal or ())
    found: list[AclBinding] = []
    with asked_cluster(bootstrap_server, command_config) as brokers:
        connection = brokers.any()
        for wanted in filters:
            reply: DescribeAclsReply = connection.call(DescribeAclsRequest(wanted))
            connection.check(reply.error, reply.error_message)
            found += [acl for resource in reply.resources for acl in resource.acls]
    _show(found, as_json=as_json, wide=wide)
    if not found:
        note("no ACLs")


@app.command()
def add(
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    topic: TopicsOption = None,
    group: GroupNamesOption = None,
    transactional_id: TransactionalIdsOption = None,
    cluster: ClusterOption = False,
    user_principal: UsersOption = None,
    pattern: PatternOption = "literal",
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: OperationsOption = None,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
) -> None:
    """Create an ACL for each combination of the named principals, hosts, operations and resources.
    ACLs that exist already stay."""
    resources = _resources(topic, group, transactional_id, cluster, user_principal, pattern)
    entries = _entries(allow_principal, deny_principal, allow_host, deny_host, operation)
    acls = bindings_of(
        resources, entries, producer=producer, consumer=consumer, idempotent=idempotent
    )
    check_new(acls)
    with asked_cluster(bootstrap_server, command_config) as brokers:
        connection = brokers.any()
        reply: CreateAclsReply = connection.call(CreateAclsRequest(tuple(acls)))
        for one in reply.results:
            connection.check(one.error, one.error_message)


@app.command()
def remove(
    bootstrap_server: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    topic: TopicsOption = None,
    group: GroupNamesOption = None,
    transactional_id: TransactionalIdsOption = None,
    cluster: ClusterOption = False,
    user_principal: UsersOption = None,
    pattern: PatternOption = "literal",
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
    operation: OperationsOption = None,
    producer: Producer = False,
    consumer: Consumer = False,
    idempotent: Idempotent = False,
    output: Format = "table",
    wide: Wide = False,
) -> None:
    """Delete ACLs, and print them. With principals, it deletes the ACLs that `add` creates with the
    same flags; without principals, all ACLs of the named resources."""
    as_json = is_json(output)
    resources = _resources(topic, group, transactional_id, cluster, user_principal, pattern)
    entries = _entries(allow_principal, deny_principal, allow_host, deny_host, operation)
    if allow_principal or deny_principal:
        acls = bindings_of(
            resources, entries, producer=producer, consumer=consumer, idempotent=idempotent
        )
        filters = [exactly(acl) for acl in acls]
    elif allow_host or deny_host or operation or producer or consumer:
        raise UsageError("say whose: --allow-principal or --deny-principal")
    elif not list(resources.all()):
        raise UsageError("name a resource: --topic, --group, --cluster, --transactional-id")
    else:
        filters = filters_of(resources)
    with asked_cluster(bootstrap_server, command_config) as brokers:
        connection = brokers.any()
        reply: DeleteAclsReply = connection.call(DeleteAclsRequest(tuple(filters)))
        for one in reply.results:
            connection.check(one.error, one.error_message)
    removed = [acl for one in reply.results for acl in one.matching]
    _show(removed, as_json=as_json, wide=wide)
    if not removed:
        note("no ACLs that match; nothing was removed")


def _entries(
    allow_principal: Allowed,
    deny_principal: Denied,
    allow_host: AllowedHosts,
    deny_host: DeniedHosts,
    operation: OperationsOption,
) -> Entries:
    """The principals, hosts and operations that the flags give. Raises UsageError."""
    return Entries(
        allow_principal or (),
        deny_principal or (),
        allow_host or (),
        deny_host or (),
        [operation_named(name) for name in operation or ()],
    )


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    ids: list[str] | None,
    cluster: bool,
    users: list[str] | None,
    pattern: str,
) -> Resources:
    return Resources(
        topics or (), groups or (), ids or (), cluster, users or (), pattern_type(pattern)
    )


def _show(acls: Iterable[AclBinding], *, as_json: bool, wide: bool) -> None:
    rows = [_row(acl) for acl in sorted(dict.fromkeys(acls), key=astuple)]
    if as_json:
        for row in rows:
            json_line(dict(zip(COLUMNS, row, strict=True)))
    elif rows:
        table([name.replace("_", " ") for name in COLUMNS], rows, wide=wide)


def _row(acl: AclBinding) -> tuple[str, ...]:
    return (
        Resource(acl.resource_type).name,
        acl.name,
        PatternType(acl.pattern).name,
        acl.principal,
        acl.host,
        Operation(acl.operation).name,
        Permission(acl.permission).name,
    )
