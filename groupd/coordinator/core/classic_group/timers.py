"""What the timers of a classic group do when they fire (docs/spec/classic-group.md#3).

    session   removes a member or a pending id, unless the member has a parked request
    join      ends the join phase, or lets an initial rebalance wait on
    sync      removes the members that have not sent SyncGroup

Several deadlines may be taken off the heap together. If handling one of them has set another one
again, that other one is stale and does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from groupd.coordinator.core.classic_group import rebalance
from groupd.coordinator.core.classic_group.group import SESSION, ClassicGroup, State
from groupd.coordinator.core.classic_group.operation import (
    JOIN,
    SYNC,
    GroupOperation,
    cancel_timers,
)
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.group import SESSION_EXPIRED
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, SyncGroupReply


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """The deadline of `key` has passed. Nothing happens if it was set again meanwhile, or if the
    group or member is gone."""
    kind, group_id, member_id = key
    group = state.groups.get(group_id)
    stale = key in state.deadlines
    if stale or not isinstance(group, ClassicGroup) or group.state is State.DEAD:
        return Outcome()
    op = GroupOperation(state, group, now)
    if kind == SESSION:
        _session(op, member_id)
    elif kind == JOIN:
        rebalance.join_timer(op)
    elif kind == SYNC:
        _sync(op)
    return op.outcome


def session(
    state: ShardState, group: ClassicGroup, member_id: str
) -> tuple[DeadlineKey, int] | None:
    """The deadline of the member's session and its timeout in ms. None for an id that is given out
    and not used yet: it has no session to restart."""
    member = group.members.get(member_id)
    if member is None:
        return None
    return (SESSION, group.group_id, member_id), member.session_timeout_ms


def _session(op: GroupOperation, member_id: str) -> None:
    group = op.group
    if member_id in group.pending_members:
        op.forget_pending(member_id)
        _complete_if_all_joined(op)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if member.is_waiting and not member.is_new:
        # The client cannot send a heartbeat while its request is parked; the answer arms the timer
        # again.
        return
    op.drop(member, EventKind.MEMBER_FENCED, SESSION_EXPIRED)
    if group.state in rebalance.REBALANCEABLE:
        rebalance.prepare(op, f"the session of member {member_id} expired")
    else:
        _complete_if_all_joined(op)


def _complete_if_all_joined(op: GroupOperation) -> None:
    """End the join phase if every member has joined. Unlike `rebalance.try_complete` this ends an
    initial rebalance early, too, as Kafka does."""
    if op.group.state is State.PREPARING_REBALANCE and op.group.all_joined():
        rebalance.complete_join(op)


def _sync(op: GroupOperation) -> None:
    group = op.group
    if group.state not in rebalance.REBALANCEABLE or not group.pending_sync:
        return
    late = sorted(group.pending_sync)
    for member_id in late:
        op.drop(
            group.members[member_id],
            EventKind.MEMBER_FENCED,
            "did not sync within the rebalance timeout",
        )
    rebalance.prepare(op, f"{len(late)} did not sync")


def on_loaded(state: ShardState, now: Instant) -> Outcome:
    """The shard is loaded. Every member gets a full session. A group that is larger than
    `group.max.size` rebalances, which lets only that many members join again. A group whose members
    have no leader rebalances, too: it came from a consumer group and had not finished its first
    rebalance."""
    outcome = Outcome()
    for group in _classic_groups(state):
        op = GroupOperation(state, group, now)
        for member in group.members.values():
            op.arm_member(member)
        if len(group.members) > state.config.group_max_size:
            rebalance.prepare(op, "freshly loaded and larger than group.max.size")
        elif group.members and group.leader_id is None:
            rebalance.prepare(op, "freshly loaded in the middle of a conversion")
        outcome.events.extend(op.outcome.events)
    return outcome


def unload(state: ShardState) -> Outcome:
    """The shard is given up: parked requests are answered NOT_COORDINATOR, timers stop, and every
    group becomes Dead, which callbacks that come late will see."""
    gone = ErrorCode.NOT_COORDINATOR
    outcome = Outcome()
    for group in _classic_groups(state):
        for member in group.sorted_members():
            if (token := group.take_join(member)) is not None:
                reply = JoinGroupReply(gone, member_id=member.member_id)
                outcome.urgent.append((token, reply))
            if member.sync_token is not None:
                outcome.urgent.append((member.sync_token, SyncGroupReply(gone)))
                member.sync_token = None
        cancel_timers(state, group)
        # The timestamp of a dead group is never read, and there is no `now` here.
        group.transition(State.DEAD, group.state_timestamp_ms)
    return outcome


def _classic_groups(state: ShardState) -> Iterator[ClassicGroup]:
    for _, group in sorted(state.groups.items()):
        if isinstance(group, ClassicGroup):
            yield group
