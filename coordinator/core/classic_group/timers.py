"""What the timers of a classic group do when they fire (classic spec, section 3).

    session   per member or pending id: it is gone, unless it waits for us
    join      the join phase is over, or an initial rebalance waits on
    sync      whoever has not synced is out

Several deadlines may be taken off the heap together; when one of them has been set again by what
another one did, it is stale and does nothing.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import rebalance
from groupd.coordinator.core.classic_group.group import SESSION, ClassicGroup, State
from groupd.coordinator.core.classic_group.turn import JOIN, SYNC, Turn
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.departures import SESSION_EXPIRED
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome

KINDS = frozenset({SESSION, JOIN, SYNC})
"""The deadline kinds that `expire` takes."""


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """`key` has been taken off the heap. A key that is stale, or whose group or member is gone,
    does nothing."""
    kind, group_id, member_id = key
    group = state.groups.get(group_id)
    stale = key in state.deadlines
    if stale or not isinstance(group, ClassicGroup) or group.state is State.DEAD:
        return Outcome(replay=False)
    turn = Turn(state, group, now)
    if kind == SESSION:
        _session(turn, member_id)
    elif kind == JOIN:
        rebalance.join_timer(turn)
    elif kind == SYNC:
        _sync(turn)
    return turn.outcome


def _session(turn: Turn, member_id: str) -> None:
    group = turn.group
    if member_id in group.pending_members:
        turn.forget_pending(member_id)
        _complete_if_all_joined(turn)
        return
    member = group.members.get(member_id)
    if member is None:
        return
    if member.is_waiting and not member.is_new:
        # It cannot heartbeat past its own parked request; the answer arms the timer again.
        return
    turn.drop(member, EventKind.MEMBER_FENCED, SESSION_EXPIRED)
    if group.state in rebalance.REBALANCEABLE:
        rebalance.prepare(turn, f"the session of member {member_id} expired")
    else:
        _complete_if_all_joined(turn)


def _complete_if_all_joined(turn: Turn) -> None:
    """Unlike `rebalance.try_complete` this ends an initial rebalance early, as Kafka does."""
    if turn.group.state is State.PREPARING_REBALANCE and turn.group.all_joined():
        rebalance.complete_join(turn)


def _sync(turn: Turn) -> None:
    group = turn.group
    if group.state not in rebalance.REBALANCEABLE or not group.pending_sync:
        return
    late = sorted(group.pending_sync)
    for member_id in late:
        turn.drop(
            group.members[member_id],
            EventKind.MEMBER_FENCED,
            "did not sync within the rebalance timeout",
        )
    rebalance.prepare(turn, f"{len(late)} did not sync")
