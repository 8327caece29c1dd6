"""The commands of `groupd acls`: flags and help. The code that does the work is imported when a
command runs, so that other commands do not wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from groupd.coordinator.cli.kafka.flags import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandConfig,
    Format,
    Wide,
    is_json,
)

if TYPE_CHECKING:
    from groupd.coordinator.cli.acls.wanted import Entries, Resources

app = typer.Typer(
    help="ACLs: who may do what with topics, groups, transactional ids and the cluster. They count "
    "where the broker has an authorizer.class.name.",
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
        help="literal, or prefixed: all resources whose names begin so. To list and to remove also "
        "any, and match: what would apply to a resource of that name.",
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
    """Show the ACLs of the resources that are named; without any, all ACLs."""
    from groupd.coordinator.cli.acls import wanted, work

    resources = _resources(topic, group, transactional_id, cluster, user_principal, pattern)
    filters = wanted.filters(resources, principal or ())
    work.list_acls(bootstrap_server, command_config, filters, as_json=is_json(output), wide=wide)


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
    """Make ACLs: one for every principal, host, operation and resource that is named. ACLs that
    exist already stay."""
    from groupd.coordinator.cli.acls import wanted, work

    resources = _resources(topic, group, transactional_id, cluster, user_principal, pattern)
    entries = _entries(allow_principal, deny_principal, allow_host, deny_host, operation)
    acls = wanted.bindings(
        resources, entries, producer=producer, consumer=consumer, idempotent=idempotent
    )
    wanted.check_new(acls)
    work.add_acls(bootstrap_server, command_config, acls)


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
    """Delete ACLs, and print them: the ACLs that `add` makes with the same flags; without
    principals, all ACLs of the resources that are named."""
    from groupd.coordinator.cli.acls import wanted, work
    from groupd.coordinator.cli.errors import UsageError

    resources = _resources(topic, group, transactional_id, cluster, user_principal, pattern)
    entries = _entries(allow_principal, deny_principal, allow_host, deny_host, operation)
    if allow_principal or deny_principal:
        acls = wanted.bindings(
            resources, entries, producer=producer, consumer=consumer, idempotent=idempotent
        )
        filters = [wanted.exactly(acl) for acl in acls]
    elif allow_host or deny_host or operation or producer or consumer:
        raise UsageError("say whose: --allow-principal or --deny-principal")
    elif not list(resources.all()):
        raise UsageError("name a resource: --topic, --group, --cluster, --transactional-id")
    else:
        filters = wanted.filters(resources)
    work.remove_acls(bootstrap_server, command_config, filters, as_json=is_json(output), wide=wide)


def _entries(
    allow_principal: Allowed,
    deny_principal: Denied,
    allow_host: AllowedHosts,
    deny_host: DeniedHosts,
    operation: OperationsOption,
) -> Entries:
    """Whose ACLs, from where, for which operations. Raises UsageError."""
    from groupd.coordinator.cli.acls import wanted

    return wanted.Entries(
        allow_principal or (),
        deny_principal or (),
        allow_host or (),
        deny_host or (),
        [wanted.operation(name) for name in operation or ()],
    )


def _resources(
    topics: list[str] | None,
    groups: list[str] | None,
    ids: list[str] | None,
    cluster: bool,
    users: list[str] | None,
    pattern: str,
) -> Resources:
    from groupd.coordinator.cli.acls.wanted import Resources, pattern_type

    return Resources(
        topics or (), groups or (), ids or (), cluster, users or (), pattern_type(pattern)
    )
