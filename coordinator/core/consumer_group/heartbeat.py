"""ConsumerGroupHeartbeat (spec 2 rows 11-19, 4; KIP-848): the heart of the coordinator.

Three steps: create or update the member, perhaps bumping the group epoch; compute a target
assignment if the group epoch is ahead of it; reconcile the member with its target. Every decision
uses the state before the operation's own records. Soft state is written at the very end.

A steady heartbeat, in which nothing differs, must stay cheap: no copy of the member, nothing that
grows with the group.
"""

from __future__ import annotations

from coordinator.core.consumer_group import events, leave, records, regex
from coordinator.core.consumer_group.errors import AssignorFailed
from coordinator.core.consumer_group.group import ConsumerGroup
from coordinator.core.consumer_group.lookup import existing_group, joined_group
from coordinator.core.consumer_group.member import (
    ConsumerGroupMember,
    MemberState,
    topic_partitions,
)
from coordinator.core.consumer_group.metadata import is_refresh_due, schedule_refresh
from coordinator.core.consumer_group.reconcile import reconcile
from coordinator.core.consumer_group.static import Resolved, check_size, resolve
from coordinator.core.consumer_group.subscription import (
    effective_subscription,
    preferred_assignor_after,
)
from coordinator.core.consumer_group.target_assignment import compute, current_target, is_due
from coordinator.core.consumer_group.timer_keys import SESSION
from coordinator.core.consumer_group.timers import cancel_rebalance, schedule_rebalance
from coordinator.core.consumer_group.update import decide_group_epoch, updated_member
from coordinator.core.group_configs import (
    assignment_interval_ms,
    heartbeat_interval_ms,
    session_timeout_ms,
)
from coordinator.core.state import ShardState
from coordinator.core.types import Event, EventKind, Instant, Outcome, RequestContext
from protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)
from protocol.records.schema import Record


def handle(
    state: ShardState,
    context: RequestContext,
    request: ConsumerGroupHeartbeatRequest,
    now: Instant,
) -> Outcome:
    """One heartbeat that has passed the front-end checks (rows 1-10).

    Raises ApiError. An assignor's failure comes as an outcome instead, without records and with
    the event that tells the operator what was wrong; clients see UNKNOWN_SERVER_ERROR.
    """
    if request.member_epoch < 0:
        return leave.handle(state, context, request)
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
    group, is_new_group, making_room = _group(state, request)
    check_size(group, request.member_id, request.instance_id, state.config.consumer_max_size)
    resolved = resolve(group, request.member_id or state.new_id(), request)
    before = resolved.member
    updated = updated_member(before, context, request)
    outcome = Outcome(records=making_room, gate=group.group_id)
    if updated is before and _is_settled(group, before, now):
        _answer(state, context, group, request, before, before, now, outcome)
        return outcome
    if is_new_group:
        outcome.events.append(Event(EventKind.GROUP_CREATED, group.group_id))
    _note_member(group, resolved, updated, outcome)

    # 1. The member's subscription and the group epoch.
    regex_change = regex.change_of(group, before, updated)
    outcome.records += regex.tombstone(group.group_id, regex_change)
    task = regex.task_if_due(state, context, group, updated, regex_change, now)
    epoch = decide_group_epoch(state, group, before, updated, regex_change, now)
    outcome.records += epoch.records
    if epoch.causes:
        outcome.events.append(
            events.epoch_bumped(group.group_id, epoch.epoch, epoch.causes, updated.member_id)
        )

    # 2. and 3. The target assignment, and the member's way towards it.
    subscription_changed = regex_change.changed or (
        before.subscribed_topic_names != updated.subscribed_topic_names
    )
    after = _reconciled(
        state, group, epoch.epoch, resolved, updated, request, subscription_changed, now, outcome
    )

    # Soft state, now that nothing can fail any more.
    if epoch.refreshed:
        schedule_refresh(group, epoch.epoch, now)
    if task is not None:
        state.regex_tasks.add(group.group_id)
        outcome.tasks.append(task)
    if after is not updated:
        _set_rebalance_timer(state, group, after, now)
    _answer(state, context, group, request, before, after, now, outcome)
    return outcome


def _is_settled(group: ConsumerGroup, member: ConsumerGroupMember, now: Instant) -> bool:
    """Neither the group nor the member has anything to do. Regular expressions may always have:
    they are looked at with every heartbeat."""
    return (
        member.is_reconciled_to(group.assignment_epoch)
        and group.group_epoch <= group.assignment_epoch
        and not group.regex_subscribers
        and not is_refresh_due(group, now)
    )


def _answer(
    state: ShardState,
    context: RequestContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    before: ConsumerGroupMember,
    after: ConsumerGroupMember,
    now: Instant,
    outcome: Outcome,
) -> None:
    """Steps 8 and 9: the session timer, which is soft state, and the reply."""
    overrides = state.group_configs.get(group.group_id)
    state.deadlines.set(
        (SESSION, group.group_id, after.member_id),
        now.monotonic_ms + session_timeout_ms(state.config, overrides),
    )
    told = _must_send_assignment(request, before, after)
    reply = ConsumerGroupHeartbeatReply(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(state.config, overrides),
        assignment=topic_partitions(after.assigned) if told else None,
    )
    outcome.replies.append((context.token, reply))


def _group(
    state: ShardState, request: ConsumerGroupHeartbeatRequest
) -> tuple[ConsumerGroup, bool, list[Record]]:
    if request.member_epoch == 0:
        return joined_group(state, request.group_id)
    return existing_group(state, request.group_id), False, []


def _note_member(
    group: ConsumerGroup, resolved: Resolved, updated: ConsumerGroupMember, outcome: Outcome
) -> None:
    """Steps 2 and 3: the records of a static replacement, and of a new or changed member."""
    outcome.records += resolved.records
    if resolved.is_new or resolved.replaced is not None:
        outcome.events.append(events.member_arrived(group.group_id, updated, resolved.replaced))
    if resolved.is_new or updated is not resolved.member:
        outcome.records.append(records.member_metadata(group.group_id, updated))


def _reconciled(
    state: ShardState,
    group: ConsumerGroup,
    group_epoch: int,
    resolved: Resolved,
    updated: ConsumerGroupMember,
    request: ConsumerGroupHeartbeatRequest,
    subscription_changed: bool,
    now: Instant,
    outcome: Outcome,
) -> ConsumerGroupMember:
    """Steps 6 and 7; the same object if the member does not change."""
    target_epoch = group.assignment_epoch
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group.group_id))
    if is_due(group, group_epoch, interval_ms, now):
        assignor = preferred_assignor_after(
            group, resolved.member, updated, state.config.consumer_assignors[0]
        )
        replaced_id = None if resolved.replaced is None else resolved.replaced.member_id
        decision = compute(state, group, group_epoch, updated, replaced_id, assignor, now)
        outcome.records += decision.records
        outcome.events.append(
            Event(
                EventKind.TARGET_INSTALLED,
                group.group_id,
                epoch=decision.epoch,
                cause=f"computed by {assignor}",
                details={"assignor": assignor, "moved_members": decision.moved},
            )
        )
        target_epoch, target = decision.epoch, decision.assignment
    elif not subscription_changed and updated.is_reconciled_to(target_epoch):
        return updated
    else:
        target = current_target(group, updated)
    after = reconcile(
        updated,
        target_epoch,
        target,
        effective_subscription(group, updated, state.image),
        group.partition_epochs,
        request.topic_partitions,
        subscription_changed,
    )
    if after is not updated:
        outcome.records.append(records.current_member(group.group_id, after))
        outcome.events += events.reconciled(group.group_id, updated, after, state.image)
    return after


def _set_rebalance_timer(
    state: ShardState, group: ConsumerGroup, member: ConsumerGroupMember, now: Instant
) -> None:
    if member.state == MemberState.UNREVOKED_PARTITIONS:
        schedule_rebalance(state, group, member, now)
    else:
        cancel_rebalance(state, group, member.member_id)


def _must_send_assignment(
    request: ConsumerGroupHeartbeatRequest,
    before: ConsumerGroupMember,
    after: ConsumerGroupMember,
) -> bool:
    """To a joiner, to a client that sent everything (it may have lost a reply), on a change."""
    if request.member_epoch == 0:
        return True
    is_full_request = (
        request.rebalance_timeout_ms != -1
        and request.topic_partitions is not None
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
    )
    return is_full_request or (
        after.assigned is not before.assigned and after.assigned != before.assigned
    )
