"""One target assignment for all members that come at once.

In a join storm each join asks for a target over all members, and each of these targets takes away
again what the one before gave out: members that came first would have to hand over nearly all
partitions, at the pace of their heartbeats. So a heartbeat that finds a target due is parked. Its
member is in the group and durable, as if the assignment interval (KIP-1263) held the target back.
A moment later, once no further change of the group comes in, the target is computed, in a large
group in slices (`deferred_target`), and every parked heartbeat goes on with it as if its member had
sent the next one.

Nobody is parked for long (`PATIENCE_MS`): whose target takes longer is answered without it and told
to come back soon. A member has one parked heartbeat: if it asks again, over another connection,
both are answered by what the later one says. The answers go out in slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field

from groupd.coordinator.core.assignors.loader import BUILT_IN
from groupd.coordinator.core.consumer_group import deferred_target, events
from groupd.coordinator.core.consumer_group.answer import answer, set_rebalance_timer
from groupd.coordinator.core.consumer_group.errors import AssignorFailed
from groupd.coordinator.core.consumer_group.group import ConsumerGroup, unknown_member
from groupd.coordinator.core.consumer_group.lookup import existing_group
from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH, ConsumerGroupMember
from groupd.coordinator.core.consumer_group.static import check_epoch, check_instance
from groupd.coordinator.core.consumer_group.steps import (
    Step,
    install_target,
    is_target_due,
    reconcile_stored,
)
from groupd.coordinator.core.consumer_group.subscription import (
    preferred_assignor,
    preferred_assignor_after,
)
from groupd.coordinator.core.consumer_group.timer_keys import ANSWER, PATIENCE, SESSION, TARGET
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.group_configs import session_timeout_ms
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext, RequestToken
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)

PATIENCE_MS = 900
"""A heartbeat is parked for so long at most; librdkafka gives one up after a second."""

LINGER_MAX_MS = 500
FIRST_LINGER_MAX_MS = 5000
"""The target waits for further members for so long at most; longer while nobody has anything."""

FIRST_FACTOR = 4
STORM_FACTOR = 10
"""So many times as long does a group wait that has no target, or that a second change came to."""

STORM_SHARE = 5
"""And a fifth as long as changes have been coming: on a busy machine they come with gaps."""

SLICE_MEMBERS = 64
SLICE_PARTITIONS = 4096
"""Heartbeats answered in one go, and the partitions of their members: one batch, quickly made."""


class Parked(Struct):
    """A heartbeat after its step 1, `epoch` being the group's then. `before`: its member after
    step 2 of the spec; `earlier`: who else waits for the answer."""

    context: RequestContext
    request: ConsumerGroupHeartbeatRequest
    before: ConsumerGroupMember
    subscription_changed: bool
    epoch: int
    since_ms: int
    earlier: list[RequestToken] = field(default_factory=list)


class Gathering(Struct):
    """Heartbeats of one group: `waiting` for a target or `served`, by `members`. `since_ms`: when
    the next target began to wait, `changes`: of the group since then, `due_ms` and `end_ms`: until
    when it waits, and may at most."""

    since_ms: int = 0
    due_ms: int = 0
    end_ms: int = 0
    changes: int = 0
    waiting: deque[Parked] = field(default_factory=deque)
    served: deque[Parked] = field(default_factory=deque)
    members: dict[str, Parked] = field(default_factory=dict)


def is_wanted(state: ShardState, group: ConsumerGroup, step: Step, now: Instant) -> bool:
    """Whether this operation asks for a target, and is to wait for it. Not for a custom assignor,
    unless the group is large: if that fails, the member that votes for it must not be in the group
    yet, else it would fail everybody's heartbeats from then on."""
    if (
        state.config.consumer_target_linger_ms == 0
        or not is_target_due(state, group, step.epoch.epoch, now)
        or deferred_target.has_failed(group, now)
    ):
        return False
    default = state.config.consumer_assignors[0]
    name = preferred_assignor_after(group, step.resolved.member, step.updated, default)
    return name in BUILT_IN or deferred_target.is_large(state, group)


def park(
    state: ShardState,
    context: RequestContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    step: Step,
    now: Instant,
) -> None:
    """Soft state, by group id: a new group has no object in the state yet."""
    # Not the request's: the deadline keeps the id.
    group_id, member_id, now_ms = group.group_id, step.updated.member_id, now.monotonic_ms
    gathering = state.gatherings.get(group_id)
    if gathering is None:
        gathering = state.gatherings[group_id] = Gathering()
    _linger(state, gathering, group, group_id, bool(step.epoch.causes), now_ms)
    parked = gathering.members.get(member_id)
    if parked is None:
        parked = Parked(
            context,
            request,
            step.resolved.member,
            step.subscription_changed,
            step.epoch.epoch,
            now_ms,
        )
        gathering.members[member_id] = parked
        gathering.waiting.append(parked)
        if len(gathering.waiting) == 1:
            state.deadlines.set((PATIENCE, group_id, ""), now_ms + PATIENCE_MS)
    else:
        parked.earlier.append(parked.context.token)
        parked.context, parked.request = context, request
        parked.subscription_changed |= step.subscription_changed
    timeout_ms = session_timeout_ms(state.config, state.group_configs.get(group_id))
    state.deadlines.set((SESSION, group_id, member_id), now_ms + timeout_ms)


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """The target has waited enough (TARGET), a heartbeat has (PATIENCE), or the next answers are
    to go out (ANSWER)."""
    kind, group_id, _ = key
    gathering = state.gatherings.get(group_id)
    if gathering is None:
        return Outcome()
    outcome = Outcome(gate=group_id)
    if kind == TARGET and _is_late(state, gathering, now.monotonic_ms):
        _wait_once_more(state, gathering, group_id, now.monotonic_ms)
    elif kind == TARGET:
        _compute(state, gathering, group_id, now, outcome)
    elif kind == PATIENCE:
        before_ms = now.monotonic_ms - PATIENCE_MS
        while gathering.waiting and gathering.waiting[0].since_ms <= before_ms:
            gathering.served.append(gathering.waiting.popleft())
        if gathering.waiting:
            state.deadlines.set(key, gathering.waiting[0].since_ms + PATIENCE_MS)
    else:
        _answer_some(state, gathering, now, outcome)
    if gathering.served:
        state.deadlines.set((ANSWER, group_id, ""), now.monotonic_ms)
    elif not gathering.waiting and (TARGET, group_id, "") not in state.deadlines:
        del state.gatherings[group_id]
    return outcome


def after_slice(state: ShardState, group_id: str, now: Instant) -> None:
    """A slice of the group's computation is done, and what it has written is in the state. After
    the last one those go on who were to wait for it; the others ask for the next. Soft state."""
    gathering = state.gatherings.get(group_id)
    group = state.groups.get(group_id)
    if gathering is None or not isinstance(group, ConsumerGroup):
        return
    if deferred_target.is_under_way(group, now):
        return
    waiting = gathering.waiting
    # Members of a large group never suffer from its assignor: they stay as they are.
    has_failed = deferred_target.has_failed(group, now)
    while waiting and (has_failed or waiting[0].epoch <= group.assignment_epoch):
        gathering.served.append(waiting.popleft())
    if gathering.served:
        state.deadlines.set((ANSWER, group_id, ""), now.monotonic_ms)
    if waiting and (TARGET, group_id, "") not in state.deadlines:
        gathering.end_ms = now.monotonic_ms
        _wait(state, gathering, group_id, now.monotonic_ms)


def unload(state: ShardState) -> Outcome:
    """The shard goes elsewhere: parked heartbeats are told NOT_COORDINATOR."""
    outcome = Outcome()
    for group_id in sorted(state.gatherings):
        gathering = state.gatherings[group_id]
        for parked in (*gathering.served, *gathering.waiting):
            reply = ConsumerGroupHeartbeatReply(error=ErrorCode.NOT_COORDINATOR)
            outcome.urgent += [(token, reply) for token in _tokens(parked)]
    state.gatherings.clear()
    return outcome


def _linger(
    state: ShardState,
    gathering: Gathering,
    group: ConsumerGroup,
    group_id: str,
    changes: bool,
    now_ms: int,
) -> None:
    """When the target is to be computed: later with each change, up to an end."""
    key = (TARGET, group_id, "")
    is_next = key not in state.deadlines
    if is_next:
        gathering.since_ms, gathering.changes = now_ms, 0
        is_first = not group.assignment_timestamp_ms
        gathering.end_ms = now_ms + (FIRST_LINGER_MAX_MS if is_first else LINGER_MAX_MS)
    gathering.changes += changes
    if not (is_next or changes):
        return
    linger_ms = state.config.consumer_target_linger_ms
    if gathering.changes > 1:
        linger_ms = max(linger_ms * STORM_FACTOR, (now_ms - gathering.since_ms) // STORM_SHARE)
    elif not group.assignment_timestamp_ms:
        linger_ms *= FIRST_FACTOR
    _wait(state, gathering, group_id, now_ms + linger_ms)


def _wait(state: ShardState, gathering: Gathering, group_id: str, until_ms: int) -> None:
    gathering.due_ms = min(until_ms, gathering.end_ms)
    state.deadlines.set((TARGET, group_id, ""), gathering.due_ms)


def _is_late(state: ShardState, gathering: Gathering, now_ms: int) -> bool:
    """Whether the deadline comes so late that this process had not been running: heartbeats that
    came meanwhile have not been read yet."""
    late_ms = now_ms - gathering.due_ms
    return late_ms >= state.config.consumer_target_linger_ms and now_ms < gathering.end_ms


def _wait_once_more(state: ShardState, gathering: Gathering, group_id: str, now_ms: int) -> None:
    until_ms = now_ms + state.config.consumer_target_linger_ms
    state.deadlines.set((TARGET, group_id, ""), min(until_ms, gathering.end_ms))
    gathering.due_ms = gathering.end_ms  # not late a second time


def _compute(
    state: ShardState, gathering: Gathering, group_id: str, now: Instant, outcome: Outcome
) -> None:
    """The target, unless there is nothing to do any more. Who waits goes on afterwards: at once,
    or `after_slice`."""
    group = state.groups.get(group_id)
    if (
        isinstance(group, ConsumerGroup)
        and group.members
        and is_target_due(state, group, group.group_epoch, now)
    ):
        if deferred_target.is_large(state, group):
            deferred_target.request(group, now, outcome)
            if not deferred_target.has_failed(group, now):
                return
        else:
            try:
                _install(state, group, now, outcome)
            except AssignorFailed as failure:
                outcome.events.append(events.assignor_failed(group_id, "", failure))
                _refuse_waiting(gathering, failure.code, outcome)
    gathering.served.extend(gathering.waiting)
    gathering.waiting.clear()


def _install(state: ShardState, group: ConsumerGroup, now: Instant, outcome: Outcome) -> None:
    member = group.members[group.sorted_member_ids()[0]]
    assignor = preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0])
    install_target(state, group, group.group_epoch, member, None, assignor, now, outcome)


def _refuse_waiting(gathering: Gathering, code: ErrorCode, outcome: Outcome) -> None:
    for parked in gathering.waiting:
        reply = ConsumerGroupHeartbeatReply(error=code)
        outcome.replies += [(token, reply) for token in _tokens(parked)]
        del gathering.members[parked.before.member_id]
    gathering.waiting.clear()


def _answer_some(state: ShardState, gathering: Gathering, now: Instant, outcome: Outcome) -> None:
    partitions = 0
    for _ in range(min(SLICE_MEMBERS, len(gathering.served))):
        parked = gathering.served.popleft()
        del gathering.members[parked.before.member_id]
        try:
            after = _go_on(state, parked, now, outcome)
        except ApiError as error:
            reply = ConsumerGroupHeartbeatReply(error=error.code, error_message=error.message)
            outcome.replies += [(token, reply) for token in _tokens(parked)]
            continue
        partitions += sum(map(len, after.assigned.values()))
        if partitions >= SLICE_PARTITIONS:
            return


def _go_on(
    state: ShardState, parked: Parked, now: Instant, outcome: Outcome
) -> ConsumerGroupMember:
    """Steps 7 to 9, with the target as it is stored. Raises ApiError."""
    request = parked.request
    group = existing_group(state, request.group_id)
    member = _present(group, parked)
    after = reconcile_stored(
        state, group, member, parked.subscription_changed, request.topic_partitions, outcome
    )
    if after is not member:
        set_rebalance_timer(state, group, after, now)
    reply = answer(state, parked.context, group, request, parked.before, after, now, outcome)
    outcome.replies += [(token, reply) for token in parked.earlier]
    return after


def _present(group: ConsumerGroup, parked: Parked) -> ConsumerGroupMember:
    """The member, if it is still who asked: it may have left, been fenced or replaced meanwhile."""
    request, member_id = parked.request, parked.before.member_id
    if request.instance_id is not None:
        check_instance(group, member_id, request.instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    if member.member_epoch == LEAVE_STATIC_EPOCH:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH, f"Member {member_id} has left for a while meanwhile."
        )
    check_epoch(member, request.member_epoch, request.topic_partitions)
    return member


def _tokens(parked: Parked) -> Iterator[RequestToken]:
    yield from parked.earlier
    yield parked.context.token
