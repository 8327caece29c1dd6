"""What the commands of `groupd acls` do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from groupd.coordinator.cli.groups.past import fail, note
from groupd.coordinator.cli.groups.show import json_line
from groupd.coordinator.cli.groups.tables import table
from groupd.coordinator.cli.kafka import acl_calls
from groupd.coordinator.cli.kafka.client_config import connect
from groupd.coordinator.cli.kafka.connection import KafkaError
from groupd.coordinator.core.acls import PatternType, Permission
from groupd.coordinator.core.types import Operation, Resource
from groupd.protocol.messages.acls import AclBinding, AclFilter

COLUMNS = ("resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")


def list_acls(
    bootstrap: str,
    command_config: Path | None,
    filters: Sequence[AclFilter],
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Print the ACLs that any of the filters matches."""
    try:
        with connect(bootstrap, command_config, (acl_calls.DESCRIBE_ACLS,)) as connection:
            found = [
                acl for wanted in filters for acl in acl_calls.describe_acls(connection, wanted)
            ]
    except KafkaError as error:
        fail(str(error))
    _show(found, as_json=as_json, wide=wide)
    if not found:
        note("no ACLs")


def add_acls(bootstrap: str, command_config: Path | None, acls: Sequence[AclBinding]) -> None:
    """Make the ACLs; those that are there stay."""
    try:
        with connect(bootstrap, command_config, (acl_calls.CREATE_ACLS,)) as connection:
            acl_calls.create_acls(connection, acls)
    except KafkaError as error:
        fail(str(error))


def remove_acls(
    bootstrap: str,
    command_config: Path | None,
    filters: Sequence[AclFilter],
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Delete the ACLs that any of the filters matches, and print them."""
    try:
        with connect(bootstrap, command_config, (acl_calls.DELETE_ACLS,)) as connection:
            removed = acl_calls.delete_acls(connection, filters)
    except KafkaError as error:
        fail(str(error))
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
