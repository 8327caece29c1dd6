"""ConsumerGroupHeartbeat (docs/spec/consumer-group.md#V11 to #V19, #4; KIP-848), the central
request of consumer groups.

Three steps: create or update the member, which may bump the group epoch; compute a target
assignment if the group epoch is ahead of the target's; reconcile the member with its target. Every
decision uses the state before the operation's own records. Soft state is written at the very end.

A steady heartbeat, in which nothing differs, must stay cheap: no copy of the member, nothing that
grows with the group.
"""

from __future__ import annotations

from msgspec.structs import replace

from groupd.coordinator.core.consumer_group import events, records, shared_target
from groupd.coordinator.core.consumer_group.answer import answer, set_rebalance_timer
from groupd.coordinator.core.consumer_group.configs import session_timeout_ms
from groupd.coordinator.core.consumer_group.conversions import JoinedGroup
from groupd.coordinator.core.consumer_group.fence import fence_members
from groupd.coordinator.core.consumer_group.group import SESSION, ConsumerGroup
from groupd.coordinator.core.consumer_group.lookup import (
    check_size,
    existing_group,
    existing_member,
    joined_group,
    resolve,
)
from groupd.coordinator.core.consumer_group.member import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    PartitionEpochs,
)
from groupd.coordinator.core.consumer_group.target_plan import TargetSource, assign, plan_target
from groupd.coordinator.core.consumer_group.update import update_group, updated_member
from groupd.coordinator.core.epochs import is_refresh_due
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.heartbeat_validity import HeartbeatReplyValidity
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome, RequestContext
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)


def handle(
    state: ShardState,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    now: Instant,
) -> Outcome:
    """Handles one heartbeat that has passed the front-end checks (docs/spec/consumer-group.md#V1 to
    #V10).

    Raises ApiError. If an assignor fails, the outcome has no records, but an event that tells the
    operator what was wrong; clients see UNKNOWN_SERVER_ERROR.
    """
    if request.member_epoch < 0:
        return _leave(state, context, request, now)
    try:
        return _regular(state, context, request, now)
    except AssignorFailed as failure:
        reply = ConsumerGroupHeartbeatReply(error=failure.code)
        event = events.assignor_failed(request.group_id, request.member_id, failure)
        return Outcome(replies=[(context.token, reply)], events=[event])


def _regular(
    state: ShardState,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    now: Instant,
) -> Outcome:
    joined = _group(state, request)
    group = joined.group
    check_size(group, request.member_id, request.instance_id, state.config.consumer_max_size)
    resolved = resolve(group, request.member_id or state.new_id(), request)
    before = resolved.member
    updated = updated_member(before, context, request)
    outcome = Outcome(records=joined.records, gate=group.group_id)
    if updated is before and _is_settled(group, before, now):
        answer(state, context, group, request, before, before, now, outcome)
        timeout_ms = session_timeout_ms(state.config, state.group_configs.get(group.group_id))
        session = state.deadlines.get((SESSION, group.group_id, before.member_id))
        if session is not None and before.member_id not in group.unacknowledged:
            outcome.reply_validity = HeartbeatReplyValidity(state, group, session, timeout_ms)
        return outcome
    if joined.is_new:
        outcome.events.append(events.event(EventKind.GROUP_CREATED, group.group_id))

    # Step 1: the member's subscription and the group epoch.
    cause = ""
    if joined.conversion is not None:
        outcome.events.append(joined.conversion.event)
        cause = "the group was a classic group"
    step = update_group(state, context, group, resolved, updated, now, outcome, cause)

    # A converted group gets its target at once, in the same write.
    plan = plan_target(state, group, step, now, at_once=joined.conversion is not None)
    if plan.source is TargetSource.SHARED:
        step.note(state, group, now, outcome)
        shared_target.wait(state, context, group, request, step, now, outcome)
        return outcome

    # Steps 2 and 3: the target assignment, and the member's reconciliation with it.
    after = assign(state, group, step, plan, request.topic_partitions, now, outcome)

    # Soft state is written now, when nothing can fail any more.
    step.note(state, group, now, outcome)
    if joined.conversion is not None:
        joined.conversion.finish(now, outcome)
    if after is not updated:
        set_rebalance_timer(state, group, after, now)
    answer(state, context, group, request, before, after, now, outcome)
    return outcome


def _is_settled(group: ConsumerGroup, member: ConsumerGroupMember, now: Instant) -> bool:
    """Whether neither the group nor the member has anything to do. If the group has regular
    expressions, a heartbeat may always have something to do, because it checks whether they are to
    be resolved."""
    return (
        member.is_reconciled_to(group.assignment_epoch)
        and group.group_epoch <= group.assignment_epoch
        and not group.regex_subscribers
        and not is_refresh_due(group, now)
    )


def _group(state: ShardState, request: ConsumerGroupHeartbeatRequest) -> JoinedGroup:
    if request.member_epoch == 0:
        return joined_group(state, request.group_id)
    return JoinedGroup(existing_group(state, request.group_id))


def _leave(
    state: ShardState,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    now: Instant,
) -> Outcome:
    """Handles a leave: `member_epoch` is -1 or -2; all fields but the identity are ignored. Raises
    ApiError."""
    group = existing_group(state, request.group_id)
    member = existing_member(group, request.member_id, request.instance_id)
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        outcome = _leave_for_a_while(group, member)
    else:
        outcome = fence_members(
            state, group, [member], EventKind.MEMBER_LEFT, "the member asked to leave", now
        )
    reply = ConsumerGroupHeartbeatReply(
        member_id=request.member_id, member_epoch=request.member_epoch
    )
    outcome.replies.append((context.token, reply))
    return outcome


def _leave_for_a_while(group: ConsumerGroup, member: ConsumerGroupMember) -> Outcome:
    """A static member leaves for a while: it keeps what it has, and the partitions that it was
    revoking are released. The session timer keeps running from the last heartbeat."""
    away = replace(
        member,
        member_epoch=LEAVE_STATIC_EPOCH,
        assigned=_without_epochs(member.assigned),
        pending_revocation={},
    )
    return Outcome(
        records=[records.current_member(group.group_id, away)],
        gate=group.group_id,
        events=[events.member_away(group.group_id, member)],
    )


def _without_epochs(assigned: PartitionEpochs) -> PartitionEpochs:
    """The partitions, all at assignment epoch 0: from now on these are compared with the epochs of
    the next process of this static member, which begin at 0."""
    return {topic: dict.fromkeys(partitions, 0) for topic, partitions in assigned.items()}
