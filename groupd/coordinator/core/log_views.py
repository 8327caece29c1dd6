"""What the records of a group with epochs, a consumer group or a share group, say to readers of a
log: events for the history of a group, and faults for `groupd log verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import LoggedEvent, LoggedEventKind


class EpochLogViews:
    """The views of one group type. `before`: the group before the record; it may be of another
    type. Keys and values are those of the type's own records."""

    def __init__(self, type_name: str) -> None:
        self._type_name = type_name

    def _own(self, before: Group | None) -> Any:
        return before if before is not None and before.type_name == self._type_name else None

    def member_metadata(self, before: Group | None, key: Any, value: Any) -> Iterator[LoggedEvent]:
        """The event of a member that joined or left."""
        own = self._own(before)
        members = {} if own is None else own.members
        known = members.get(key.member_id)
        if value is None:
            if known is not None:
                yield LoggedEventKind.MEMBER_LEFT, key.member_id, -1, _client(known)
                if len(members) == 1:
                    yield LoggedEventKind.EMPTIED, "", -1, {}
        elif known is None:
            if own is None and before is not None and before.members:
                conversion = {"from": before.type_name, "to": self._type_name}
                yield LoggedEventKind.CONVERTED, "", -1, conversion
            yield LoggedEventKind.MEMBER_JOINED, key.member_id, -1, _client(value)

    def group_metadata(self, before: Group | None, key: Any, value: Any) -> Iterator[LoggedEvent]:
        """The event of a new group epoch, or of the end of the group."""
        if value is None:
            if before is not None:
                yield LoggedEventKind.DELETED, "", -1, {}
            return
        own = self._own(before)
        if own is None or own.group_epoch != value.epoch:
            yield LoggedEventKind.EPOCH, "", value.epoch, {}

    def current_member(self, before: Group | None, key: Any, value: Any) -> Iterator[LoggedEvent]:
        """The event of a member's new assignment."""
        if value is None:
            return
        held = {topic.topic_id: set(topic.partitions) for topic in value.assigned}
        own = self._own(before)
        member = None if own is None else own.members.get(key.member_id)
        had = {topic: set(parts) for topic, parts in member.assigned.items()} if member else {}
        if held != had:
            partitions = sum(len(parts) for parts in held.values())
            details = {
                "partitions": partitions,
                "before": sum(len(parts) for parts in had.values()),
            }
            yield LoggedEventKind.MEMBER_ASSIGNED, key.member_id, value.member_epoch, details


def current_member_problems(key: Any, value: Any) -> Iterator[str]:
    """Reports a member epoch that decreases."""
    epoch, before = value.member_epoch, value.previous_member_epoch
    if 0 <= epoch < before:
        yield f"a member of group {key.group} goes from epoch {before} to {epoch}"


def group_problems(group: Any) -> Iterator[str]:
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
