"""What is shown of a classic group: generation, members, parked requests, what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from groupd.coordinator.core.blocked import Wait, due_in, wait
from groupd.coordinator.core.classic_group.group import (
    CONSUMER_PROTOCOL_TYPE,
    SESSION,
    ClassicGroup,
    State,
)
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.operation import JOIN, SYNC
from groupd.coordinator.core.group_type import Holding, MemberIdentity
from groupd.coordinator.core.slices import LISTED_MAX, Steps, smallest
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.consumer_protocol import (
    MalformedSubscription,
    parse_assignment,
    subscribed_topics,
)


class _ClassicSnapshot:
    """The members of a group at one moment; the member objects may change afterwards."""

    __slots__ = ("_pending", "group", "members")

    def __init__(self, group: ClassicGroup) -> None:
        self.group = group
        self.members = dict(group.members)
        self._pending = list(group.pending_members)

    def first(self, keep: Callable[[str], bool] | None = None) -> Steps[list[ClassicGroupMember]]:
        """The first `LISTED_MAX` members by id, and one more if there are more. `keep`: only those
        ids for which it is true."""
        member_ids = yield from smallest(list(self.members), LISTED_MAX + 1, keep)
        return [self.members[member_id] for member_id in member_ids]

    def late(self) -> Steps[list[ClassicGroupMember]]:
        """The members whose Join the group waits for."""
        return (yield from self.first(lambda one: self.members[one].join_token is None))

    def pending(self) -> Steps[list[str]]:
        """The ids that were given out and are not used yet."""
        return (yield from smallest(self._pending, LISTED_MAX + 1))


def inspect(
    state: ShardState, group: ClassicGroup, now: Instant, after: str | None = None
) -> dict[str, Any]:
    """The description of the group. `blocked`: what the group waits for; `waiting_for`: members
    without a parked Join while a rebalance is being prepared, or without a Sync while one
    completes. The lists are iterators."""
    snapshot = _ClassicSnapshot(group)
    return {
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id,
        "members": _members(snapshot, after),
        "pending_members": _pending(snapshot),
        "waiting_for": _waiting_for(snapshot),
        "blocked": _waits(state, snapshot, now),
    }


def _members(snapshot: _ClassicSnapshot, after: str | None) -> Iterator[dict[str, Any] | None]:
    members = yield from snapshot.first(None if after is None else lambda one: one > after)
    for member in members:
        yield _member(snapshot.group, member)


def _pending(snapshot: _ClassicSnapshot) -> Iterator[str | None]:
    yield from (yield from snapshot.pending())


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
    """Who a member is; `epoch` is the group's generation."""
    member = group.members[member_id]
    return MemberIdentity(
        member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        group.generation,
    )


def owned_partitions(group: ClassicGroup, member_id: str) -> Iterable[Holding]:
    """What the member's last assignment gave it, by topic name. Empty if only the clients of the
    group can read the assignment."""
    return _owned(group, group.members[member_id]).items()


def _owned(group: ClassicGroup, member: ClassicGroupMember) -> dict[str, list[int]]:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or not member.assignment:
        return {}
    try:
        assignment = parse_assignment(member.assignment)
    except MalformedSubscription:
        return {}  # the clients have a format of their own
    return {topic: sorted(partitions) for topic, partitions in sorted(assignment.partitions)}


def _waiting_for(snapshot: _ClassicSnapshot) -> Iterator[str | None]:
    group = snapshot.group
    if group.state is State.PREPARING_REBALANCE:
        for member in (yield from snapshot.late()):
            yield member.member_id
        yield from (yield from snapshot.pending())
    elif group.state is State.COMPLETING_REBALANCE:
        yield from (yield from smallest(list(group.pending_sync), LISTED_MAX + 1))


def _waits(state: ShardState, snapshot: _ClassicSnapshot, now: Instant) -> Iterator[Wait | None]:
    """What the group waits for. There is nothing unless a rebalance is under way, or an id that was
    given out is not used yet."""
    group = snapshot.group
    if group.state is State.PREPARING_REBALANCE:
        yield from _joins(state, snapshot, now)
    elif group.state is State.COMPLETING_REBALANCE:
        yield from _syncs(state, group, now)
    for member_id in (yield from snapshot.pending()):
        left_ms = due_in(state.deadlines, (SESSION, group.group_id, member_id), now)
        yield wait("was given its id and has to join with it", member_id, left_ms)


def _joins(state: ShardState, snapshot: _ClassicSnapshot, now: Instant) -> Iterator[Wait | None]:
    group = snapshot.group
    left_ms = due_in(state.deadlines, (JOIN, group.group_id, ""), now)
    if group.initial_rebalance:
        yield wait("waits for more members (group.initial.rebalance.delay.ms)", "", left_ms)
        return
    late = yield from snapshot.late()
    for member in late:
        yield wait("has to send JoinGroup", member.member_id, left_ms)
    if not late and not group.pending_members:
        yield wait("the join phase is about to end", "", left_ms)


def _syncs(state: ShardState, group: ClassicGroup, now: Instant) -> Iterator[Wait | None]:
    left_ms = due_in(state.deadlines, (SYNC, group.group_id, ""), now)
    late = yield from smallest(list(group.pending_sync), LISTED_MAX + 1)
    for member_id in late:
        leads = member_id == group.leader_id
        why = "has to send SyncGroup" + (", with the assignment: it leads" if leads else "")
        yield wait(why, member_id, left_ms)
    if not late:
        yield wait("the assignment is being written", "", left_ms)
