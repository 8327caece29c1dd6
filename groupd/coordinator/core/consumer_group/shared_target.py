"""One target assignment for all members that join at about the same time (ADR 21).

Suppose a thousand members join at once and each join computes a target. Then each target takes away
most of what the one before gave out, and partitions only move as fast as heartbeats come. So a
heartbeat that finds a target due waits. Its member is in the group, as if the assignment interval
(KIP-1263) held the target back. The target is computed once no further change of the group has come
for a while, in a large group in slices (`deferred_target`). Then every waiting heartbeat is
answered with it, as if its member had sent the next one.

No heartbeat waits for long (`PATIENCE_MS`). If its target takes longer, it is answered without it,
and the reply asks the client to send the next heartbeat soon. A member has one waiting heartbeat.
If it sends another one, over another connection, the later one counts and both get its answer.
Answers are sent in slices.
"""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.consumer_group import deferred_target, events
from groupd.coordinator.core.consumer_group.answer import answer, set_rebalance_timer
from groupd.coordinator.core.consumer_group.configs import session_timeout_ms
from groupd.coordinator.core.consumer_group.group import (
    ANSWER,
    PATIENCE,
    SESSION,
    TARGET,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.lookup import (
    check_epoch,
    existing_group,
    existing_member,
)
from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH, ConsumerGroupMember
from groupd.coordinator.core.consumer_group.reconcile import reconcile_member
from groupd.coordinator.core.consumer_group.soft_state import (
    WaitingHeartbeat,
    WaitingHeartbeats,
    soft_of,
)
from groupd.coordinator.core.consumer_group.subscription import preferred_assignor
from groupd.coordinator.core.consumer_group.target_assignment import (
    InstalledTarget,
    install,
    is_target_due,
)
from groupd.coordinator.core.consumer_group.update import MemberUpdate
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext, Task
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)

# How long a target waits for further members. "Linger": `consumer_target_linger_ms`.

FIRST_FACTOR = 4
"""A group's first target waits for this many times the linger, because more members are likely to
join."""

STORM_FACTOR = 10
"""Once a second change of the group has come, the target waits for at least this many times the
linger."""

STORM_SHARE = 5
"""Once a second change of the group has come, the target also waits for at least this part (a
fifth) of the time for which changes have been coming: on a busy machine they come with gaps."""

LINGER_MAX_MS = 500
"""No target waits for longer than this after the first heartbeat that found it due."""

FIRST_LINGER_MAX_MS = 5000
"""The same for a group's first target, which may take longer: no member has partitions yet."""

# How long a heartbeat waits for its answer.

PATIENCE_MS = 900
"""A heartbeat waits for at most this long; librdkafka gives up on a heartbeat after a second."""

ANSWER_MEMBERS = 64
"""At most this many waiting heartbeats are answered in one slice; their records are one batch."""

ANSWER_PARTITIONS = 4096
"""At most about this many partitions are in the answers of one slice."""


def wait(
    state: ShardState,
    context: RequestContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    step: MemberUpdate,
    now: Instant,
    outcome: Outcome,
) -> None:
    """Let the heartbeat wait for the target that it has found due. Writes soft state by group id,
    because a new group has no object in the state yet. `outcome`: that of step 1. If step 1 wants
    regular expressions resolved, that is done while the target waits. Without a linger the target
    does not wait for the resolution, as in Kafka (docs/compat.md)."""
    # The group's own string and not the request's, because the deadline keeps it in memory.
    group_id, member_id, now_ms = group.group_id, step.updated.member_id, now.monotonic_ms
    of_all = soft_of(state).waiting_heartbeats
    heartbeats = of_all.get(group_id)
    if heartbeats is None:
        heartbeats = of_all[group_id] = WaitingHeartbeats()
    _schedule_target(state, heartbeats, group, bool(step.epoch.causes), now_ms)
    known = heartbeats.by_member.get(member_id)
    if known is None:
        heartbeat = WaitingHeartbeat(
            context,
            request,
            step.resolved.member,
            step.subscription_changed,
            step.epoch.epoch,
            now_ms,
        )
        heartbeats.by_member[member_id] = heartbeat
        heartbeats.waiting.append(heartbeat)
        if len(heartbeats.waiting) == 1:
            state.deadlines.set((PATIENCE, group_id, ""), now_ms + PATIENCE_MS)
    else:
        known.earlier.append(known.context.token)
        known.context, known.request = context, request
        known.subscription_changed |= step.subscription_changed
    if not state.config.consumer_target_linger_ms:
        heartbeats.tasks += outcome.tasks
        outcome.tasks = []
    timeout_ms = session_timeout_ms(state.config, state.group_configs.get(group_id))
    state.deadlines.set((SESSION, group_id, member_id), now_ms + timeout_ms)


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """A deadline of waiting heartbeats has passed. TARGET: their target has waited long enough for
    further members. PATIENCE: the oldest heartbeat has waited long enough. ANSWER: the next
    heartbeats are to be answered."""
    kind, group_id, _ = key
    heartbeats = soft_of(state).waiting_heartbeats.get(group_id)
    if heartbeats is None:
        return Outcome()
    outcome = Outcome(gate=group_id)
    if kind == TARGET:
        outcome.tasks, heartbeats.tasks = heartbeats.tasks, []
        installed = _compute(state, heartbeats, group_id, now, outcome)
        _answer_some(state, heartbeats, now, outcome, installed)
    elif kind == PATIENCE:
        before_ms = now.monotonic_ms - PATIENCE_MS
        while heartbeats.waiting and heartbeats.waiting[0].since_ms <= before_ms:
            heartbeats.ready.append(heartbeats.waiting.popleft())
        if heartbeats.waiting:
            until_ms = heartbeats.waiting[0].since_ms + PATIENCE_MS
            state.deadlines.set(key, until_ms)
    else:
        _answer_some(state, heartbeats, now, outcome)
    if heartbeats.ready:
        state.deadlines.set((ANSWER, group_id, ""), now.monotonic_ms)
    elif not heartbeats.waiting and (TARGET, group_id, "") not in state.deadlines:
        state.deadlines.cancel((PATIENCE, group_id, ""))
        del soft_of(state).waiting_heartbeats[group_id]
    return outcome


def task_done(state: ShardState, task: Task, result: Any, now: Instant) -> Outcome:
    """Do the next slice of a large group's computation. If it was the last one, and its records are
    in the state, answer the heartbeats whose target is there. The others ask for the next
    target."""
    outcome = deferred_target.complete(state, task, result, now)
    group_id = task.group_id
    heartbeats = soft_of(state).waiting_heartbeats.get(group_id)
    group = state.groups.get(group_id)
    if heartbeats is None or not isinstance(group, ConsumerGroup):
        return outcome
    if large_targets.is_under_way(group, now):
        return outcome
    waiting = heartbeats.waiting
    # If the assignor of a large group fails, its members' heartbeats get no error: they keep what
    # they have.
    has_failed = large_targets.has_failed(group, now)
    while waiting and (has_failed or waiting[0].group_epoch <= group.assignment_epoch):
        heartbeats.ready.append(waiting.popleft())
    if heartbeats.ready:
        state.deadlines.set((ANSWER, group_id, ""), now.monotonic_ms)
    if waiting and (TARGET, group_id, "") not in state.deadlines:
        heartbeats.end_ms = now.monotonic_ms
        state.deadlines.set((TARGET, group_id, ""), now.monotonic_ms)
    return outcome


def unload(state: ShardState) -> Outcome:
    """The coordinator gives the shard up: waiting heartbeats are answered NOT_COORDINATOR."""
    outcome = Outcome()
    of_all = soft_of(state).waiting_heartbeats
    for _, heartbeats in sorted(of_all.items()):
        for heartbeat in (*heartbeats.ready, *heartbeats.waiting):
            reply = ConsumerGroupHeartbeatReply(error=ErrorCode.NOT_COORDINATOR)
            outcome.urgent += [(token, reply) for token in heartbeat.tokens()]
    of_all.clear()
    return outcome


def _schedule_target(
    state: ShardState,
    heartbeats: WaitingHeartbeats,
    group: ConsumerGroup,
    has_changed: bool,
    now_ms: int,
) -> None:
    """Set the time at which the target is computed. Each change of the group postpones it, but not
    beyond `end_ms`."""
    is_first_target = not group.assignment_timestamp_ms
    is_newly_due = (TARGET, group.group_id, "") not in state.deadlines
    if is_newly_due:
        heartbeats.since_ms, heartbeats.changes = now_ms, 0
        longest_ms = FIRST_LINGER_MAX_MS if is_first_target else LINGER_MAX_MS
        heartbeats.end_ms = now_ms + longest_ms
    heartbeats.changes += has_changed
    if not (is_newly_due or has_changed):
        return
    linger_ms = state.config.consumer_target_linger_ms
    if linger_ms and heartbeats.changes > 1:
        lasting_ms = now_ms - heartbeats.since_ms
        linger_ms = max(linger_ms * STORM_FACTOR, lasting_ms // STORM_SHARE)
    elif is_first_target:
        linger_ms *= FIRST_FACTOR
    until_ms = min(now_ms + linger_ms, heartbeats.end_ms)
    state.deadlines.set((TARGET, group.group_id, ""), until_ms)


def _compute(
    state: ShardState, heartbeats: WaitingHeartbeats, group_id: str, now: Instant, outcome: Outcome
) -> InstalledTarget | None:
    """Compute the target if it is still due. In a large group the heartbeats wait on until the last
    slice is done, otherwise they are ready now."""
    installed = None
    group = state.groups.get(group_id)
    if (
        isinstance(group, ConsumerGroup)
        and group.members
        and is_target_due(state, group, group.group_epoch, now)
    ):
        if deferred_target.is_large(state, group):
            large_targets.request(deferred_target.TASK_KIND, group, now, outcome)
            if not large_targets.has_failed(group, now):
                return None
        else:
            name = preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0])
            try:
                installed = install(state, group, group.group_epoch, name, now, outcome)
            except AssignorFailed as failure:
                outcome.events.append(events.assignor_failed(group_id, "", failure))
                _refuse_waiting(heartbeats, failure.code, outcome)
    heartbeats.ready.extend(heartbeats.waiting)
    heartbeats.waiting.clear()
    return installed


def _refuse_waiting(heartbeats: WaitingHeartbeats, code: ErrorCode, outcome: Outcome) -> None:
    for heartbeat in heartbeats.waiting:
        reply = ConsumerGroupHeartbeatReply(error=code)
        outcome.replies += [(token, reply) for token in heartbeat.tokens()]
        del heartbeats.by_member[heartbeat.before.member_id]
    heartbeats.waiting.clear()


def _answer_some(
    state: ShardState,
    heartbeats: WaitingHeartbeats,
    now: Instant,
    outcome: Outcome,
    installed: InstalledTarget | None = None,
) -> None:
    """Answer the next slice of the heartbeats that are ready. `installed`: the target that this
    outcome installs."""
    partitions = 0
    for _ in range(min(ANSWER_MEMBERS, len(heartbeats.ready))):
        heartbeat = heartbeats.ready.popleft()
        del heartbeats.by_member[heartbeat.before.member_id]
        try:
            after = _go_on(state, heartbeat, now, outcome, installed)
        except ApiError as error:
            reply = ConsumerGroupHeartbeatReply(error=error.code, error_message=error.message)
            outcome.replies += [(token, reply) for token in heartbeat.tokens()]
            continue
        partitions += sum(map(len, after.assigned.values()))
        if partitions >= ANSWER_PARTITIONS:
            return


def _go_on(
    state: ShardState,
    heartbeat: WaitingHeartbeat,
    now: Instant,
    outcome: Outcome,
    installed: InstalledTarget | None,
) -> ConsumerGroupMember:
    """Reconcile the member with its target and answer its heartbeat. Raises ApiError."""
    request = heartbeat.request
    group = existing_group(state, request.group_id)
    member = _check_again(group, heartbeat)
    changed, owned = heartbeat.subscription_changed, request.topic_partitions
    after = reconcile_member(state, group, member, changed, owned, outcome, installed)
    if after is not member:
        set_rebalance_timer(state, group, after, now)
    reply = answer(state, heartbeat.context, group, request, heartbeat.before, after, now, outcome)
    outcome.replies += [(token, reply) for token in heartbeat.earlier]
    return after


def _check_again(group: ConsumerGroup, heartbeat: WaitingHeartbeat) -> ConsumerGroupMember:
    """The member of the heartbeat. Raises ApiError if it has left, or was fenced or replaced, while
    its heartbeat waited."""
    request, member_id = heartbeat.request, heartbeat.before.member_id
    member = existing_member(group, member_id, request.instance_id)
    if member.member_epoch == LEAVE_STATIC_EPOCH:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH, f"Member {member_id} has left for a while meanwhile."
        )
    check_epoch(member, request.member_epoch, request.topic_partitions)
    return member
