"""Deadlines of members on the classic protocol in consumer groups (spec 7).

    session   the member's own timeout, from every JoinGroup, SyncGroup and Heartbeat
    join      rebalance timeout, from the first answer that told it to rejoin until it does
    sync      rebalance timeout of a JoinGroup, until its SyncGroup

Expiry fences the member like a leave. A member that went over to the consumer protocol has no
business with the latter two any more: they do nothing then.
"""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.fence import fence_members
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.timer_keys import JOIN, SESSION, SYNC
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome

KINDS = frozenset({JOIN, SYNC})
"""The deadline kinds that `expire` takes."""

_CAUSES = {
    JOIN: "did not rejoin within the rebalance timeout",
    SYNC: "did not sync within the rebalance timeout",
}


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """A "consumer-join" or "consumer-sync" deadline has passed."""
    kind, group_id, member_id = key
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return Outcome()
    return fence_members(state, group, [member], EventKind.MEMBER_FENCED, _CAUSES[kind], now)


def arm_session(
    state: ShardState, group_id: str, member_id: str, timeout_ms: int, now: Instant
) -> None:
    state.deadlines.set((SESSION, group_id, member_id), now.monotonic_ms + timeout_ms)


def arm_join_if_absent(
    state: ShardState, group_id: str, member_id: str, timeout_ms: int, now: Instant
) -> None:
    """Being told again does not give the member more time."""
    key = (JOIN, group_id, member_id)
    if key not in state.deadlines:
        state.deadlines.set(key, now.monotonic_ms + timeout_ms)


def joined(state: ShardState, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
    """The member has rejoined; `timeout_ms`: how long it may take to sync."""
    state.deadlines.cancel((JOIN, group_id, member_id))
    state.deadlines.set((SYNC, group_id, member_id), now.monotonic_ms + timeout_ms)


def synced(state: ShardState, group_id: str, member_id: str) -> None:
    state.deadlines.cancel((SYNC, group_id, member_id))
