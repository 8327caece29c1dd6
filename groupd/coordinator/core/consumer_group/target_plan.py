"""Steps 2 and 3 of a ConsumerGroupHeartbeat, or of a JoinGroup of a member on the classic protocol:
the target assignment, and the member's way towards it (docs/spec/consumer-group.md#4, steps 6 and
7).
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

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


class Way(Enum):
    """How an operation comes to the target that it finds due."""

    NOT_DUE = "not due"
    AT_ONCE = "at once"
    """The operation computes it."""
    SHARED = "shared"
    """The operation waits for a target that is computed for several members (`shared_target`)."""
    IN_SLICES = "in slices"
    """The operation requests it and goes on with the stored one (`deferred_target`)."""


class TargetPlan(Struct, frozen=True):
    """`assignor`: name of the one that the group prefers, "" if no target is due."""

    way: Way
    assignor: str = ""


_NOT_DUE = TargetPlan(Way.NOT_DUE)


def plan_target(
    state: ShardState,
    group: ConsumerGroup,
    step: MemberUpdate,
    now: Instant,
    *,
    at_once: bool = False,
) -> TargetPlan:
    """What the operation does about the group's target after its step 1. `at_once`: its answer
    cannot do without a target that is due.

    A small group with a custom assignor computes at once, too. If that assignor fails, the member
    that votes for it must not be in the group yet: else the vote would fail the heartbeats of all
    members from then on.
    """
    if not is_target_due(state, group, step.epoch.epoch, now):
        return _NOT_DUE
    default = state.config.consumer_assignors[0]
    name = preferred_assignor_after(group, step.resolved.member, step.updated, default)
    if at_once:
        return TargetPlan(Way.AT_ONCE, name)
    may_wait = state.config.consumer_target_linger_ms > 0 and not deferred_target.has_failed(
        group, now
    )
    if may_wait and name in BUILT_IN:
        return TargetPlan(Way.SHARED, name)
    if deferred_target.is_large(state, group):
        return TargetPlan(Way.SHARED if may_wait else Way.IN_SLICES, name)
    return TargetPlan(Way.AT_ONCE, name)


def assign(
    state: ShardState,
    group: ConsumerGroup,
    step: MemberUpdate,
    plan: TargetPlan,
    owned: Owned,
    now: Instant,
    outcome: Outcome,
) -> ConsumerGroupMember:
    """2. The target assignment as planned, 3. the member's way towards it: [R7* R6] [R8]. Not for
    a shared target: there the heartbeat goes on later.

    Returns the member, which is `step.updated` if it does not change. Raises AssignorFailed, and
    FENCED_MEMBER_EPOCH for a member in an unknown state.
    """
    member, changed = step.updated, step.subscription_changed
    if plan.way is Way.AT_ONCE:
        replaced = step.resolved.replaced
        replaced_id = None if replaced is None else replaced.member_id
        target = install(
            state, group, step.epoch.epoch, plan.assignor, now, outcome, member, replaced_id
        )
        return reconcile_member(state, group, member, changed, owned, outcome, target)
    if plan.way is Way.IN_SLICES:
        deferred_target.request(group, now, outcome)
    return reconcile_member(state, group, member, changed, owned, outcome)
