"""The work of the commands of `groupd acls`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from groupd.coordinator.cli.groups.past import asking, note
from groupd.coordinator.cli.groups.tables import json_line, table
from groupd.coordinator.cli.kafka.calls import check
from groupd.coordinator.cli.kafka.cluster import open_cluster
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security.acls import PatternType, Permission
from groupd.protocol.messages.acls import (
    AclBinding,
    AclFilter,
    CreateAclsReply,
    CreateAclsRequest,
    DeleteAclsReply,
    DeleteAclsRequest,
    DescribeAclsReply,
    DescribeAclsRequest,
)

COLUMNS = ("resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")


def list_acls(
    bootstrap: str,
    command_config: Path | None,
    filters: Sequence[AclFilter],
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Prints the ACLs that any of the filters matches."""
    found: list[AclBinding] = []
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        connection = cluster.any()
        for wanted in filters:
            reply: DescribeAclsReply = connection.call(DescribeAclsRequest(wanted))
            check(connection, reply.error, reply.error_message)
            found += [acl for resource in reply.resources for acl in resource.acls]
    _show(found, as_json=as_json, wide=wide)
    if not found:
        note("no ACLs")


def add_acls(bootstrap: str, command_config: Path | None, acls: Sequence[AclBinding]) -> None:
    """Creates the ACLs; ACLs that exist stay. If a broker refuses some of them, the others are
    created and the command ends with exit code 1."""
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        connection = cluster.any()
        reply: CreateAclsReply = connection.call(CreateAclsRequest(tuple(acls)))
        for one in reply.results:
            check(connection, one.error, one.error_message)


def remove_acls(
    bootstrap: str,
    command_config: Path | None,
    filters: Sequence[AclFilter],
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Deletes the ACLs that any of the filters matches, and prints them."""
    with asking(), open_cluster(bootstrap, command_config) as cluster:
        connection = cluster.any()
        reply: DeleteAclsReply = connection.call(DeleteAclsRequest(tuple(filters)))
        for one in reply.results:
            check(connection, one.error, one.error_message)
    removed = [acl for one in reply.results for acl in one.matching]
    _show(removed, as_json=as_json, wide=wide)
    if not removed:
        note("no ACLs that match; nothing was removed")


def _show(acls: Iterable[AclBinding], *, as_json: bool, wide: bool) -> None:
    rows = [_row(acl) for acl in sorted(dict.fromkeys(acls), key=_order)]
    if as_json:
        for row in rows:
            json_line(dict(zip(COLUMNS, row, strict=True)))
    elif rows:
        table([name.replace("_", " ") for name in COLUMNS], rows, wide=wide)


def _order(acl: AclBinding) -> tuple[int, str, int, str, str, int, int]:
    return (
        acl.resource_type,
        acl.name,
        acl.pattern,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


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
