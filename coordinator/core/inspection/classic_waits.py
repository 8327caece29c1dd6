"""What a classic group waits for."""

from __future__ import annotations

from collections.abc import Iterator

from groupd.coordinator.core.classic_group.group import SESSION, ClassicGroup, State
from groupd.coordinator.core.classic_group.turn import JOIN, SYNC
from groupd.coordinator.core.inspection.waits import Wait, due_in, wait
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant


def classic_waits(state: ShardState, group: ClassicGroup, now: Instant) -> Iterator[Wait]:
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
