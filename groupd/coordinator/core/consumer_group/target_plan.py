"""Steps 2 and 3 of a ConsumerGroupHeartbeat, or of a JoinGroup of a member on the classic protocol:
the target assignment, and the member's reconciliation with it (docs/spec/consumer-group.md#4, steps
6 and 7)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.assignors.loader import BUILT_IN
from groupd.coordinator.core.consumer_group import deferred_target
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.reconcile import Owned, reconcile_member
from groupd.coordinator.core.consumer_group.subscription import preferred_assignor_after
from groupd.coordinator.core.consumer_group.target_assignment import install, is_target_due
from groupd.coordinator.core.consumer_group.update import MemberUpdate
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome


class TargetSource(Enum):
    """Where an operation takes the target assignment from."""

    STORED = "stored"
    """The stored target."""
    SHARED = "shared"
    """A target that is computed for several members; the operation waits for it
    (`shared_target`)."""
    COMPUTED = "computed"
    """A target that the operation computes itself."""


class TargetPlan(Struct, frozen=True):
    """`assignor`: the name of the assignor that the group prefers, "" if the source is STORED."""

    source: TargetSource
    assignor: str = ""


_STORED = TargetPlan(TargetSource.STORED)


def plan_target(
    state: ShardState,
    group: ConsumerGroup,
    step: MemberUpdate,
    now: Instant,
    *,
    at_once: bool = False,
) -> TargetPlan:
    """What the operation does about the group's target after its step 1. A target that is due is
    shared, but for two cases. `at_once`: the operation's reply needs the target. And the custom
    assignor of a small group is called at once, because it may fail: then the member that votes for
    it must not be in the group yet, or its vote would fail the heartbeats of all members from then
    on."""
    if not is_target_due(state, group, step.epoch.epoch, now):
        return _STORED
    default = state.config.consumer_assignors[0]
    name = preferred_assignor_after(group, step.resolved.member, step.updated, default)
    large = deferred_target.is_large(state, group)
    if at_once or not (large or name in BUILT_IN):
        return TargetPlan(TargetSource.COMPUTED, name)
    if large and large_targets.has_failed(group, now):
        return _STORED  # no heartbeat should wait for an assignor that has just failed
    return TargetPlan(TargetSource.SHARED, name)


def assign(
    state: ShardState,
    group: ConsumerGroup,
    step: MemberUpdate,
    plan: TargetPlan,
    owned: Owned,
    now: Instant,
    outcome: Outcome,
) -> ConsumerGroupMember:
    """Step 2, the target assignment as planned, and step 3, the member's reconciliation: [R7* R6]
    [R8]. Not for a shared target, for which the heartbeat goes on later.

    Returns the member, which is `step.updated` if it does not change. Raises AssignorFailed, and
    FENCED_MEMBER_EPOCH for a member in an unknown state.
    """
    member, changed, target = step.updated, step.subscription_changed, None
    if plan.source is TargetSource.COMPUTED:
        replaced = step.resolved.replaced
        replaced_id = None if replaced is None else replaced.member_id
        target = install(
            state, group, step.epoch.epoch, plan.assignor, now, outcome, member, replaced_id
        )
    return reconcile_member(state, group, member, changed, owned, outcome, target)
