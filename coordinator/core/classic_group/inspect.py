"""What is shown of a classic group: generation, members, parked requests, what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.core.classic_group.group import (
    CONSUMER_PROTOCOL_TYPE,
    SESSION,
    ClassicGroup,
    State,
)
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.operation import JOIN, SYNC
from groupd.coordinator.core.classic_group.subscription import (
    MalformedSubscription,
    parse_assignment,
    subscribed_topics,
)
from groupd.coordinator.core.group_type import MemberIdentity, Place
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.coordinator.core.waiting import Wait, due_in, wait


def inspect(state: ShardState, group: ClassicGroup, now: Instant) -> dict[str, Any]:
    """`blocked`: what the group waits for; `waiting_for`: members without a parked Join while a
    rebalance is being prepared, or without a Sync while one completes."""
    return {
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id,
        "members": [_member(group, member) for member in group.sorted_members()],
        "pending_members": sorted(group.pending_members),
        "waiting_for": _waiting_for(group),
        "blocked": list(_waits(state, group, now)),
    }


def _member(group: ClassicGroup, member: ClassicGroupMember) -> dict[str, Any]:
    consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "classic",
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [protocol.name for protocol in member.protocols],
        "subscribed_topic_names": _topics(member) if consumer else [],
        "owned": _owned(group, member),
        "join_parked": member.join_token is not None,
        "sync_parked": member.sync_token is not None,
    }


def _topics(member: ClassicGroupMember) -> list[str]:
    try:
        return sorted(subscribed_topics(member.protocols[0].metadata))
    except (MalformedSubscription, IndexError):
        return []


def identify(group: ClassicGroup, member_id: str) -> MemberIdentity:
    """`epoch` is the group's generation."""
    member = group.members[member_id]
    return MemberIdentity(
        member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        group.generation,
    )


def places(group: ClassicGroup, member_id: str) -> frozenset[Place]:
    """What the member's last assignment gave it, by topic name; nothing if only the clients of
    the group can tell."""
    return frozenset(
        (topic, partition)
        for topic, partitions in _owned(group, group.members[member_id]).items()
        for partition in partitions
    )


def _owned(group: ClassicGroup, member: ClassicGroupMember) -> dict[str, list[int]]:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or not member.assignment:
        return {}
    try:
        assignment = parse_assignment(member.assignment)
    except MalformedSubscription:
        return {}  # a client's own format
    return {topic: sorted(partitions) for topic, partitions in sorted(assignment.partitions)}


def _waiting_for(group: ClassicGroup) -> list[str]:
    if group.state is State.PREPARING_REBALANCE:
        missing = [m.member_id for m in group.sorted_members() if m.join_token is None]
        return missing + sorted(group.pending_members)
    if group.state is State.COMPLETING_REBALANCE:
        return sorted(group.pending_sync)
    return []


def _waits(state: ShardState, group: ClassicGroup, now: Instant) -> Iterator[Wait]:
    """Not empty while a rebalance is under way or an id that was given out is not used yet."""
    if group.state is State.PREPARING_REBALANCE:
        yield from _joins(state, group, now)
    elif group.state is State.COMPLETING_REBALANCE:
        yield from _syncs(state, group, now)
    for member_id in sorted(group.pending_members):
        left_ms = due_in(state.deadlines, (SESSION, group.group_id, member_id), now)
        yield wait("was given its id and has to join with it", member_id, left_ms)


def _joins(state: ShardState, group: ClassicGroup, now: Instant) -> Iterator[Wait]:
    left_ms = due_in(state.deadlines, (JOIN, group.group_id, ""), now)
    if group.initial_rebalance:
        yield wait("waits for more members (group.initial.rebalance.delay.ms)", "", left_ms)
        return
    missing = [one.member_id for one in group.sorted_members() if one.join_token is None]
    for member_id in missing:
        yield wait("has to send JoinGroup", member_id, left_ms)
    if not missing and not group.pending_members:
        yield wait("the join phase is about to end", "", left_ms)


def _syncs(state: ShardState, group: ClassicGroup, now: Instant) -> Iterator[Wait]:
    left_ms = due_in(state.deadlines, (SYNC, group.group_id, ""), now)
    for member_id in sorted(group.pending_sync):
        leads = member_id == group.leader_id
        why = "has to send SyncGroup" + (", with the assignment: it leads" if leads else "")
        yield wait(why, member_id, left_ms)
    if not group.pending_sync:
        yield wait("the assignment is being written", "", left_ms)
