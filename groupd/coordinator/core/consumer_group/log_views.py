"""What the records of a consumer group say to readers of a log: events for the history of a group,
and faults for `groupd log verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.core.consumer_group.group import TYPE_NAME, ConsumerGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import LoggedEvent, LoggedEventKind
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)


def member_metadata(
    before: Group | None,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
) -> Iterator[LoggedEvent]:
    """The event of a member that joined or left."""
    members = before.members if isinstance(before, ConsumerGroup) else {}
    known = members.get(key.member_id)
    if value is None:
        if known is not None:
            yield LoggedEventKind.MEMBER_LEFT, key.member_id, -1, _client(known)
            if len(members) == 1:
                yield LoggedEventKind.EMPTIED, "", -1, {}
    elif known is None:
        if before is not None and before.type_name != TYPE_NAME and before.members:
            conversion = {"from": before.type_name, "to": TYPE_NAME}
            yield LoggedEventKind.CONVERTED, "", -1, conversion
        yield LoggedEventKind.MEMBER_JOINED, key.member_id, -1, _client(value)


def group_metadata(
    before: Group | None,
    key: ConsumerGroupMetadataKey,
    value: ConsumerGroupMetadataValue | None,
) -> Iterator[LoggedEvent]:
    """The event of a new group epoch, or of the end of the group."""
    if value is None:
        if before is not None:
            yield LoggedEventKind.DELETED, "", -1, {}
    elif not isinstance(before, ConsumerGroup) or before.group_epoch != value.epoch:
        yield LoggedEventKind.EPOCH, "", value.epoch, {}


def current_member(
    before: Group | None,
    key: ConsumerGroupCurrentMemberKey,
    value: ConsumerGroupCurrentMemberValue | None,
) -> Iterator[LoggedEvent]:
    """The event of a member's new assignment."""
    if value is None:
        return
    held = {topic.topic_id: set(topic.partitions) for topic in value.assigned}
    member = before.members.get(key.member_id) if isinstance(before, ConsumerGroup) else None
    had = {topic: set(parts) for topic, parts in member.assigned.items()} if member else {}
    if held != had:
        partitions = sum(len(parts) for parts in held.values())
        details = {"partitions": partitions, "before": sum(len(parts) for parts in had.values())}
        yield LoggedEventKind.MEMBER_ASSIGNED, key.member_id, value.member_epoch, details


def current_member_problems(
    key: ConsumerGroupCurrentMemberKey, value: ConsumerGroupCurrentMemberValue
) -> Iterator[str]:
    """Reports a member epoch that decreases."""
    epoch, before = value.member_epoch, value.previous_member_epoch
    if 0 <= epoch < before:
        yield f"a member of group {key.group} goes from epoch {before} to {epoch}"


def group_problems(group: ConsumerGroup) -> Iterator[str]:
    """Reports epochs and targets that contradict each other once the whole log is applied."""
    name = f"group {group.group_id}"
    if group.assignment_epoch > group.group_epoch:
        yield (
            f"{name}: target epoch {group.assignment_epoch} is above group epoch "
            f"{group.group_epoch}"
        )
    for member_id, member in sorted(group.members.items()):
        if member.member_epoch > group.assignment_epoch:
            yield (
                f"{name}: member {member_id} is at epoch {member.member_epoch}, above target epoch "
                f"{group.assignment_epoch}"
            )
    unknown = sorted(set(group.targets) - set(group.members))
    if unknown:
        yield f"{name}: has targets for {', '.join(unknown)}, who are no members"


def _client(member: Any) -> dict[str, str]:
    return {"client_id": member.client_id, "client_host": member.client_host}
