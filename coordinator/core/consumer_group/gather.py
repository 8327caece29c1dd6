"""One target assignment for all members that come at once.

In a join storm each join asks for a target over all members, and each of these targets takes away
again what the one before gave out: members that came first would have to hand over nearly all
partitions, at the pace of their heartbeats. So a heartbeat that finds a target due is parked. Its
member is in the group and durable, as if the assignment interval (KIP-1263) held the target back.
A moment later, once no further change of the group comes in, the target is computed, and every
parked heartbeat goes on with it as if its member had sent the next one.

The wait is `groupd.consumer.target.linger.ms` after the last change, ten times that while the
group has no target at all, for its members mostly start together; at most `LINGER_MAX_MS` in all.
The answers go out in slices, so that a large group does not hold up others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from coordinator.core.consumer_group import events
from coordinator.core.consumer_group.answer import answer, set_rebalance_timer
from coordinator.core.consumer_group.errors import AssignorFailed
from coordinator.core.consumer_group.group import ConsumerGroup, unknown_member
from coordinator.core.consumer_group.lookup import existing_group
from coordinator.core.consumer_group.member import ConsumerGroupMember
from coordinator.core.consumer_group.steps import (
    Step,
    install_target,
    is_target_due,
    reconcile_stored,
)
from coordinator.core.consumer_group.subscription import preferred_assignor
from coordinator.core.consumer_group.timer_keys import ANSWER, SESSION, TARGET
from coordinator.core.deadlines import DeadlineKey
from coordinator.core.group_configs import session_timeout_ms
from coordinator.core.state import ShardState
from coordinator.core.types import Instant, Outcome, RequestContext
from protocol.errors import ApiError, ErrorCode
from protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)

KINDS = frozenset({TARGET, ANSWER})

LINGER_MAX_MS = 1000
"""Clients wait longer than that for a reply."""

FIRST_FACTOR = 10
"""A group without a target waits so many times as long."""

SLICE = 100
"""Heartbeats answered at a time."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A heartbeat after its step 1. `before`: its member after step 2 of the spec."""

    context: RequestContext
    request: ConsumerGroupHeartbeatRequest
    before: ConsumerGroupMember
    subscription_changed: bool


@dataclass(slots=True)
class Gathering:
    """Heartbeats of one group. `waiting` for a target, since `since_ms`; `served`: there is one."""

    since_ms: int = 0
    waiting: list[Parked] = field(default_factory=list)
    served: deque[Parked] = field(default_factory=deque)


def is_wanted(state: ShardState, group: ConsumerGroup, step: Step, now: Instant) -> bool:
    """Whether this operation asks for a target, and is to wait for it."""
    return state.config.consumer_target_linger_ms > 0 and is_target_due(
        state, group, step.epoch.epoch, now
    )


def park(
    state: ShardState,
    context: RequestContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    step: Step,
    now: Instant,
) -> None:
    """Soft state, by group id: a new group has no object in the state yet."""
    group_id, now_ms = request.group_id, now.monotonic_ms
    gathering = state.gatherings.setdefault(group_id, Gathering())
    key = (TARGET, group_id, "")
    if not gathering.waiting:
        gathering.since_ms = now_ms
    if step.epoch.causes or key not in state.deadlines:
        linger_ms = state.config.consumer_target_linger_ms
        if not group.assignment_timestamp_ms:
            linger_ms *= FIRST_FACTOR
        state.deadlines.set(key, min(now_ms + linger_ms, gathering.since_ms + LINGER_MAX_MS))
    gathering.waiting.append(
        Parked(context, request, step.resolved.member, step.subscription_changed)
    )
    timeout_ms = session_timeout_ms(state.config, state.group_configs.get(group_id))
    session = (SESSION, group_id, step.updated.member_id)
    state.deadlines.set(session, now_ms + timeout_ms)


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """The target is due (TARGET), or the next slice of answers (ANSWER)."""
    kind, group_id, _ = key
    gathering = state.gatherings.get(group_id)
    if gathering is None:
        return Outcome()
    outcome = Outcome(gate=group_id)
    if kind == TARGET:
        _serve(state, gathering, group_id, now, outcome)
    else:
        for _ in range(min(SLICE, len(gathering.served))):
            _go_on(state, gathering.served.popleft(), now, outcome)
    if gathering.served:
        state.deadlines.set((ANSWER, group_id, ""), now.monotonic_ms)
    elif not gathering.waiting:
        del state.gatherings[group_id]
    return outcome


def unload(state: ShardState) -> Outcome:
    """The shard goes elsewhere: parked heartbeats are told NOT_COORDINATOR."""
    outcome = Outcome()
    for group_id in sorted(state.gatherings):
        gathering = state.gatherings[group_id]
        for parked in (*gathering.served, *gathering.waiting):
            reply = ConsumerGroupHeartbeatReply(error=ErrorCode.NOT_COORDINATOR)
            outcome.urgent.append((parked.context.token, reply))
    state.gatherings.clear()
    return outcome


def _serve(
    state: ShardState, gathering: Gathering, group_id: str, now: Instant, outcome: Outcome
) -> None:
    """Compute the target, unless it came in another way or nobody is left who asked."""
    parked, gathering.waiting = gathering.waiting, []
    group = state.groups.get(group_id)
    speaker = _speaker(group, parked)
    if isinstance(group, ConsumerGroup) and speaker is not None:
        try:
            _install(state, group, speaker, now, outcome)
        except AssignorFailed as failure:
            outcome.events.append(events.assignor_failed(group_id, speaker.member_id, failure))
            for heartbeat in parked:
                reply = ConsumerGroupHeartbeatReply(error=failure.code)
                outcome.replies.append((heartbeat.context.token, reply))
            return
    gathering.served.extend(parked)


def _speaker(group: object, parked: list[Parked]) -> ConsumerGroupMember | None:
    if not isinstance(group, ConsumerGroup):
        return None
    found = (group.members.get(heartbeat.before.member_id) for heartbeat in parked)
    return next((member for member in found if member is not None), None)


def _install(
    state: ShardState,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    now: Instant,
    outcome: Outcome,
) -> None:
    if is_target_due(state, group, group.group_epoch, now):
        assignor = preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0])
        install_target(state, group, group.group_epoch, member, None, assignor, now, outcome)


def _go_on(state: ShardState, parked: Parked, now: Instant, outcome: Outcome) -> None:
    """Steps 7 to 9, with the target as it is stored."""
    request, member_id = parked.request, parked.before.member_id
    try:
        group = existing_group(state, request.group_id)
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(group.group_id, member_id)
        after = reconcile_stored(
            state, group, member, parked.subscription_changed, request.topic_partitions, outcome
        )
    except ApiError as error:
        reply = ConsumerGroupHeartbeatReply(error=error.code, error_message=error.message)
        outcome.replies.append((parked.context.token, reply))
        return
    if after is not member:
        set_rebalance_timer(state, group, after, now)
    answer(state, parked.context, group, request, parked.before, after, now, outcome)
