"""When a member is expected to send its next heartbeat (ADR 25).

A member learns of new partitions with its next heartbeat. So an assignor that is free to choose who
gets partitions that no member has should choose the members whose next heartbeat comes first: those
whose heartbeats wait for this very target, then those whose last heartbeat is the longest ago. A
member whose heartbeat is overdue may be dead, and partitions that it gets would not be consumed
until its session ends. Such members come last, as do members that cannot take anything with their
next heartbeat.

The times are computed from the session deadlines, soft state of the shard. After a restart all
sessions begin at the same time, so the order is that of member ids.
"""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.core.consumer_group.configs import (
    heartbeat_interval_ms,
    session_timeout_ms,
)
from groupd.coordinator.core.consumer_group.group import (
    SESSION,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH, MemberState
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.target_limits import LATE_SHARE
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant

NOW = -(1 << 62)
"""The expected time of a member whose heartbeat waits for this target."""

LAST = 1 << 62
"""The expected time of a member that may be dead, or that cannot take partitions with its next
heartbeat."""


def expected(
    state: ShardState, group: ConsumerGroup, now: Instant, asking_id: str | None = None
) -> Callable[[str], int]:
    """Returns a function from member id to the monotonic time in ms of the member's next heartbeat,
    NOW or LAST. The function uses the state at the time when it is called, which may be long after
    this call.

    `asking_id`: the member whose request is answered with this target, if no heartbeats wait for
    it.
    """
    group_id = group.group_id
    overrides = state.group_configs.get(group_id)
    timeout_ms = session_timeout_ms(state.config, overrides)
    interval_ms = heartbeat_interval_ms(state.config, overrides)
    silent_ms = now.monotonic_ms - interval_ms - interval_ms // LATE_SHARE
    deadlines, heartbeats = state.deadlines, soft_of(state).waiting_heartbeats

    def expected_ms(member_id: str) -> int:
        member = group.members.get(member_id)
        if member is not None and member.state == MemberState.UNREVOKED_PARTITIONS:
            return LAST
        waiting = heartbeats.get(group_id)
        if member_id == asking_id if waiting is None else member_id in waiting.by_member:
            return NOW
        if member is None or member.member_epoch == LEAVE_STATIC_EPOCH:
            return LAST
        ends_ms = deadlines.due((SESSION, group_id, member_id))
        # A member on the classic protocol learns of its assignment in other ways.
        if ends_ms is None or member.classic is not None:
            return LAST
        heard_ms = ends_ms - timeout_ms
        return heard_ms + interval_ms if heard_ms >= silent_ms else LAST

    return expected_ms
