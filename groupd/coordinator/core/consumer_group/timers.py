"""Deadlines of consumer groups (docs/spec/consumer-group.md#7): session and rebalance timeouts.

Rules: deadlines are soft state and are set last. A deadline whose member or group is gone does
nothing. Expiry removes the member as a leave does, by an ordinary outcome with records.
"""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.configs import (
    session_timeout_ms,
)
from groupd.coordinator.core.consumer_group.group import KINDS, REBALANCE, SESSION, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.core.deadlines import DeadlineKey, Deadlines
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome


def on_loaded(state: ShardState, now: Instant) -> Outcome:
    """Restart the timers of all consumer groups of a freshly loaded shard."""
    for group_id in sorted(state.groups):
        group = state.groups[group_id]
        if isinstance(group, ConsumerGroup):
            restart(state, group, now)
    return Outcome()


def restart(state: ShardState, group: ConsumerGroup, now: Instant) -> None:
    """Soft state: give every member a full session, also members on the classic protocol, and every
    unfinished revocation its full time."""
    session_ms = session_timeout_ms(state.config, state.group_configs.get(group.group_id))
    if group.is_classic_only():
        group.rejoin_epoch = group.group_epoch
    at_ms = now.monotonic_ms + session_ms
    for member in group.members.values():
        state.deadlines.set((SESSION, group.group_id, member.member_id), at_ms)
        if member.state == MemberState.UNREVOKED_PARTITIONS:
            schedule_rebalance(state, group, member, now)


def session(
    state: ShardState, group: ConsumerGroup, member_id: str
) -> tuple[DeadlineKey, int] | None:
    """The deadline of the member's session and its timeout in ms; None for an unknown member. A
    member on the classic protocol has a timeout of its own, all others have that of the group."""
    member = group.members.get(member_id)
    if member is None:
        return None
    if member.classic is not None:
        timeout_ms = member.classic.session_timeout_ms
    else:
        timeout_ms = session_timeout_ms(state.config, state.group_configs.get(group.group_id))
    return (SESSION, group.group_id, member_id), timeout_ms


def schedule_rebalance(
    state: ShardState, group: ConsumerGroup, member: ConsumerGroupMember, now: Instant
) -> None:
    """Soft state: set the deadline by which the member must have revoked its partitions at this
    epoch."""
    group.rebalance_epochs[member.member_id] = member.member_epoch
    state.deadlines.set(
        (REBALANCE, group.group_id, member.member_id),
        now.monotonic_ms + member.rebalance_timeout_ms,
    )


def cancel_rebalance(state: ShardState, group: ConsumerGroup, member_id: str) -> None:
    """Soft state: cancel the deadline that `schedule_rebalance` sets."""
    group.rebalance_epochs.pop(member_id, None)
    state.deadlines.cancel((REBALANCE, group.group_id, member_id))


def cancel_member(deadlines: Deadlines, group_id: str, member_id: str) -> None:
    """Soft state: cancel all deadlines of a member."""
    for kind in KINDS:
        deadlines.cancel((kind, group_id, member_id))
