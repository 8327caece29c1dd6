"""The three steps of an operation in which a member speaks: ConsumerGroupHeartbeat, and JoinGroup
of a member on the classic protocol (spec 4 steps 3-7, spec 8).

Each function appends records and events to the operation's outcome, in the order of the spec, and
changes nothing else; `Step.note` writes the soft state once nothing can fail any more.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group import deferred_target, events, records, regex
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.metadata import schedule_refresh
from groupd.coordinator.core.consumer_group.reconcile import Owned, reconcile
from groupd.coordinator.core.consumer_group.static import Resolved
from groupd.coordinator.core.consumer_group.subscription import (
    effective_subscription,
    preferred_assignor_after,
)
from groupd.coordinator.core.consumer_group.target_assignment import (
    TargetDecision,
    compute,
    current_target,
    is_due,
)
from groupd.coordinator.core.consumer_group.update import EpochDecision, decide_group_epoch
from groupd.coordinator.core.group_configs import assignment_interval_ms
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext, Task


class Step(Struct, frozen=True):
    """What step 1 found. `updated`: the member with what its request says; `task`: a resolution
    of regular expressions to start."""

    resolved: Resolved
    updated: ConsumerGroupMember
    epoch: EpochDecision
    subscription_changed: bool
    task: Task | None

    def note(self, state: ShardState, group: ConsumerGroup, now: Instant, outcome: Outcome) -> None:
        """Soft state of step 1."""
        if self.epoch.refreshed:
            schedule_refresh(group, self.epoch.epoch, now)
        if self.task is not None:
            state.regex_tasks.add(group.group_id)
            outcome.tasks.append(self.task)


def update_group(
    state: ShardState,
    context: RequestContext,
    group: ConsumerGroup,
    resolved: Resolved,
    updated: ConsumerGroupMember,
    now: Instant,
    outcome: Outcome,
    cause: str = "",
) -> Step:
    """1. The member's subscription and the group epoch: [T8 T7 T5 R5 R7 R8] [R5] [T16] [R3] [T4].

    `cause`: a reason of the caller to bump the group epoch, "" for none.
    """
    before = resolved.member
    outcome.records += resolved.records
    if resolved.is_new or resolved.replaced is not None:
        outcome.events.append(events.member_arrived(group.group_id, updated, resolved.replaced))
    if resolved.is_new or updated is not before:
        outcome.records.append(records.member_metadata(group.group_id, updated))
    change = regex.change_of(group, before, updated)
    outcome.records += regex.tombstone(group.group_id, change)
    task = regex.task_if_due(state, context, group, updated, change, now)
    epoch = decide_group_epoch(state, group, before, updated, change, now, cause)
    outcome.records += epoch.records
    if epoch.causes:
        outcome.events.append(
            events.epoch_bumped(group.group_id, epoch.epoch, epoch.causes, updated.member_id)
        )
    subscription_changed = change.changed or (
        before.subscribed_topic_names != updated.subscribed_topic_names
    )
    return Step(resolved, updated, epoch, subscription_changed, task)


def assign(
    state: ShardState,
    group: ConsumerGroup,
    step: Step,
    owned: Owned,
    now: Instant,
    outcome: Outcome,
    *,
    may_defer: bool = False,
) -> ConsumerGroupMember:
    """2. The target assignment, if it is due, and 3. the member's way towards it: [R7* R6] [R8].
    `may_defer`: a large group's target is only asked for, and comes later.

    The same object as `step.updated` if the member does not change. Raises AssignorFailed, and
    FENCED_MEMBER_EPOCH for a member in an unknown state.
    """
    resolved, updated = step.resolved, step.updated
    if not is_target_due(state, group, step.epoch.epoch, now):
        return settle(state, group, step, owned, outcome)
    if may_defer and deferred_target.is_large(state, group):
        deferred_target.request(group, now, outcome)
        return settle(state, group, step, owned, outcome)
    assignor = preferred_assignor_after(
        group, resolved.member, updated, state.config.consumer_assignors[0]
    )
    replaced_id = None if resolved.replaced is None else resolved.replaced.member_id
    decision = install_target(
        state, group, step.epoch.epoch, updated, replaced_id, assignor, now, outcome
    )
    changed = step.subscription_changed
    return _reconciled(
        state, group, updated, changed, decision.epoch, decision.assignment, owned, outcome
    )


def is_target_due(state: ShardState, group: ConsumerGroup, group_epoch: int, now: Instant) -> bool:
    """Whether a target for `group_epoch` is missing and may be computed now."""
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group.group_id))
    return is_due(group, group_epoch, interval_ms, now)


def install_target(
    state: ShardState,
    group: ConsumerGroup,
    group_epoch: int,
    member: ConsumerGroupMember,
    replaced_id: str | None,
    assignor: str,
    now: Instant,
    outcome: Outcome,
) -> TargetDecision:
    """Compute it: [R7* R6]. `member` and `replaced_id`: see `compute`. Raises AssignorFailed."""
    decision = compute(state, group, group_epoch, member, replaced_id, assignor, now)
    outcome.records += decision.records
    outcome.events.append(
        events.target_installed(group.group_id, decision.epoch, assignor, decision.moved)
    )
    return decision


def settle(
    state: ShardState, group: ConsumerGroup, step: Step, owned: Owned, outcome: Outcome
) -> ConsumerGroupMember:
    """3. alone, towards the stored target: [R8]."""
    changed = step.subscription_changed
    return reconcile_stored(state, group, step.updated, changed, owned, outcome)


def reconcile_stored(
    state: ShardState,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    subscription_changed: bool,
    owned: Owned,
    outcome: Outcome,
) -> ConsumerGroupMember:
    """The member's way towards the stored target: [R8]. The same object if nothing changes."""
    target_epoch = group.assignment_epoch
    if not subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    target = current_target(group, member)
    return _reconciled(
        state, group, member, subscription_changed, target_epoch, target, owned, outcome
    )


def _reconciled(
    state: ShardState,
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    subscription_changed: bool,
    target_epoch: int,
    target: Assignment,
    owned: Owned,
    outcome: Outcome,
) -> ConsumerGroupMember:
    after = reconcile(
        member,
        target_epoch,
        target,
        effective_subscription(group, member, state.image),
        group.partition_epochs,
        owned,
        subscription_changed,
    )
    if after is not member:
        outcome.records.append(records.current_member(group.group_id, after))
        outcome.events += events.reconciled(group.group_id, member, after, state.image)
    return after
