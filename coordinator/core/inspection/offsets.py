"""Who owns each partition of a group, what is committed there, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.inspection.classic import owned_by
from groupd.coordinator.core.inspection.snapshot import named
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant

PARTITIONS_MAX = 10_000
"""More partitions of one group are not shown."""

Member = ConsumerGroupMember | ClassicGroupMember


def inspect_offsets(
    state: ShardState,
    store: OffsetStore,
    group_id: str,
    owned_since: Mapping[str, int],
    now: Instant,
) -> dict[str, Any] | None:
    """None when there is no such group. `partitions`: all that a member owns or that an offset is
    committed for, by topic and number; `members`: those that own some. `owned_since`: member id ->
    wall ms of the last time it was given partitions, as far as that is known."""
    group = state.groups.get(group_id)
    if group is None:
        return None
    owners = {
        (topic, number): member
        for member, owned in _owned(group, state)
        for topic, numbers in owned.items()
        for number in numbers
    }
    committed = store.topics(group_id)
    places = {(topic, number) for topic, numbers in committed.items() for number in numbers}
    shown = sorted(places | owners.keys())[:PARTITIONS_MAX]
    partitions = []
    members: dict[str, dict[str, Any]] = {}
    for topic, number in shown:
        owner = owners.get((topic, number))
        stored = store.get(group_id, topic, number)
        commit_ms = None if stored is None else stored.commit_timestamp_ms
        partitions.append(
            {
                "topic": topic,
                "partition": number,
                "committed_offset": None if stored is None else stored.offset,
                "last_commit_ms": commit_ms,
                "in_transaction": store.is_pending(group_id, topic, number),
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
                "client_host": None if owner is None else owner.client_host,
            }
        )
        if owner is not None:
            member = members.setdefault(owner.member_id, _member(owner, owned_since))
            member["partitions"] += 1
            member["last_commit_ms"] = max(
                (one for one in (member["last_commit_ms"], commit_ms) if one is not None),
                default=None,
            )
    return {
        "group_id": group_id,
        "now_ms": now.wall_ms,
        "partitions": partitions,
        "members": [members[member_id] for member_id in sorted(members)],
        "left_out": len(places | owners.keys()) - len(shown),
    }


def _member(member: Member, owned_since: Mapping[str, int]) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "partitions": 0,
        "last_commit_ms": None,
        "owned_since_ms": owned_since.get(member.member_id),
    }


def _owned(group: object, state: ShardState) -> Iterator[tuple[Member, Mapping[str, list[int]]]]:
    if isinstance(group, ConsumerGroup):
        for one in group.members.values():
            yield one, named(one.assigned, state.image)
            yield one, named(one.pending_revocation, state.image)
    elif isinstance(group, ClassicGroup):
        for member in group.members.values():
            yield member, owned_by(group, member)
