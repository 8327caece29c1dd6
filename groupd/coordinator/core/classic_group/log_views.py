"""What the record of a classic group says to readers of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.core.classic_group.group import TYPE_NAME, ClassicGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import LoggedEvent, LoggedEventKind
from groupd.protocol.records.schema import GroupMetadataKey, GroupMetadataValue


def group_metadata(
    before: Group | None, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> Iterator[LoggedEvent]:
    """Who joined and left, and whether the group rebalanced, since the record before."""
    if value is None:
        if before is not None:
            yield LoggedEventKind.DELETED, "", -1, {}
        return
    generation = value.generation
    if before is not None and before.type_name != TYPE_NAME:
        conversion = {"from": before.type_name, "to": TYPE_NAME}
        yield LoggedEventKind.CONVERTED, "", generation, conversion
    members = {} if before is None else before.members
    now = {member.member_id: member for member in value.members}
    for member_id in sorted(members.keys() - now.keys()):
        yield LoggedEventKind.MEMBER_LEFT, member_id, generation, _client(members[member_id])
    for member_id in sorted(now.keys() - members.keys()):
        yield LoggedEventKind.MEMBER_JOINED, member_id, generation, _client(now[member_id])
    if not now:
        if members:
            yield LoggedEventKind.EMPTIED, "", generation, {}
    elif not isinstance(before, ClassicGroup) or generation != before.generation:
        details = {"members": len(now), "leader": value.leader, "protocol": value.protocol}
        yield LoggedEventKind.REBALANCED, "", generation, details


def _client(member: Any) -> dict[str, str]:
    return {"client_id": member.client_id, "client_host": member.client_host}
