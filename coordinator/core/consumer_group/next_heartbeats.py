"""When a member is expected to send its next heartbeat (ADR 25).

A member learns of new partitions with its next heartbeat. So whoever may choose who gets partitions
that nobody has asks here who speaks soonest: members whose heartbeats are parked for this very
target, then those whose last heartbeat was longest ago. Members that should have been heard by now
may be dead, and partitions given to them would rest until their session ends; they come last, like
those that could not take anything with their next heartbeat.

It is soft state of the shard, known from session deadlines alone: after a restart everybody was
heard at the same time, and order is that of ids again.
"""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH, MemberState
from groupd.coordinator.core.consumer_group.timer_keys import SESSION
from groupd.coordinator.core.group_configs import (
    assigns_soonest,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant

AT_ONCE = -(1 << 62)
NOT_SOON = 1 << 62

LATE_SHARE = 20
"""A heartbeat may be late by such a part of its interval before its member counts as silent."""


def expected(
    state: ShardState, group: ConsumerGroup, now: Instant, asking_id: str | None = None
) -> Callable[[str], int] | None:
    """Monotonic ms by member id, as of the moment of each question, with AT_ONCE and NOT_SOON as
    extremes; None if order is to be that of ids. `asking_id`: a member that is answered with this
    target though nobody is parked.

    Without that answer being sure (a target in slices while `groupd.consumer.target.linger.ms`
    is 0) who speaks soonest would speak too soon: then it is None, too.
    """
    group_id = group.group_id
    overrides = state.group_configs.get(group_id)
    if not assigns_soonest(state.config, overrides):
        return None
    if asking_id is None and not state.config.consumer_target_linger_ms:
        return None
    timeout_ms = session_timeout_ms(state.config, overrides)
    interval_ms = heartbeat_interval_ms(state.config, overrides)
    silent_ms = now.monotonic_ms - interval_ms - interval_ms // LATE_SHARE
    deadlines = state.deadlines

    def ask(member_id: str) -> int:
        member = group.members.get(member_id)
        if member is not None and member.state == MemberState.UNREVOKED_PARTITIONS:
            return NOT_SOON
        gathering = state.gatherings.get(group_id)
        if member_id == asking_id if gathering is None else member_id in gathering.members:
            return AT_ONCE
        if member is None or member.member_epoch == LEAVE_STATIC_EPOCH:
            return NOT_SOON
        ends_ms = deadlines.due((SESSION, group_id, member_id))
        # On the classic protocol it is not a heartbeat that tells.
        if ends_ms is None or member.classic is not None:
            return NOT_SOON
        heard_ms = ends_ms - timeout_ms
        return heard_ms + interval_ms if heard_ms >= silent_ms else NOT_SOON

    return ask
