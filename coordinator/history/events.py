"""Events of a group, told from a record and the group before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.history.changes import EventKind, GroupEvent
from groupd.coordinator.history.stream import Entry
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
)

Found = Iterator[tuple[EventKind, str, int, Mapping[str, Any]]]
"""Kind, member id, epoch, details."""


def events_of(entry: Entry, before: Group | None) -> list[GroupEvent]:
    """What a record that is not an offset says about its group; `before` is the group without
    it, not changed yet."""
    assert entry.record is not None
    teller = _TELLERS.get(type(entry.record.key))
    if teller is None:
        return []
    return [
        GroupEvent(kind, entry.timestamp_ms, entry.offset, member_id, epoch, details)
        for kind, member_id, epoch, details in teller(before, entry.record.key, entry.record.value)
    ]


def _classic(
    before: Group | None, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> Found:
    if value is None:
        if before is not None:
            yield EventKind.DELETED, "", -1, {}
        return
    if isinstance(before, ConsumerGroup):
        yield EventKind.CONVERTED, "", value.generation, {"from": "consumer", "to": "classic"}
    members = before.members if isinstance(before, ClassicGroup | ConsumerGroup) else {}
    now = {member.member_id: member for member in value.members}
    for member_id in sorted(members.keys() - now.keys()):
        yield EventKind.MEMBER_LEFT, member_id, value.generation, _who(members[member_id])
    for member_id in sorted(now.keys() - members.keys()):
        yield EventKind.MEMBER_JOINED, member_id, value.generation, _who(now[member_id])
    generation = before.generation if isinstance(before, ClassicGroup) else -1
    if not now:
        if members:
            yield EventKind.EMPTIED, "", value.generation, {}
    elif value.generation != generation:
        details = {"members": len(now), "leader": value.leader, "protocol": value.protocol}
        yield EventKind.REBALANCED, "", value.generation, details


def _member(before: Group | None, key: ConsumerGroupMemberMetadataKey, value: Any) -> Found:
    members = before.members if isinstance(before, ConsumerGroup) else {}
    known = members.get(key.member_id)
    if value is None:
        if known is not None:
            yield EventKind.MEMBER_LEFT, key.member_id, -1, _who(known)
            if len(members) == 1:
                yield EventKind.EMPTIED, "", -1, {}
    elif known is None:
        if isinstance(before, ClassicGroup) and before.members:
            yield EventKind.CONVERTED, "", -1, {"from": "classic", "to": "consumer"}
        yield EventKind.MEMBER_JOINED, key.member_id, -1, _who(value)


def _epoch(before: Group | None, key: ConsumerGroupMetadataKey, value: Any) -> Found:
    if value is None:
        if before is not None:
            yield EventKind.DELETED, "", -1, {}
    elif not isinstance(before, ConsumerGroup) or before.group_epoch != value.epoch:
        yield EventKind.EPOCH, "", value.epoch, {}


def _assigned(before: Group | None, key: ConsumerGroupCurrentMemberKey, value: Any) -> Found:
    if value is None:
        return
    held = {topic.topic_id: set(topic.partitions) for topic in value.assigned}
    member = before.members.get(key.member_id) if isinstance(before, ConsumerGroup) else None
    had = {topic: set(parts) for topic, parts in member.assigned.items()} if member else {}
    if held != had:
        partitions = sum(len(parts) for parts in held.values())
        details = {"partitions": partitions, "before": sum(len(parts) for parts in had.values())}
        yield EventKind.MEMBER_ASSIGNED, key.member_id, value.member_epoch, details


def _who(member: Any) -> dict[str, str]:
    return {"client_id": member.client_id, "client_host": member.client_host}


_TELLERS: dict[type, Callable[[Group | None, Any, Any], Found]] = {
    GroupMetadataKey: _classic,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupCurrentMemberKey: _assigned,
}
