"""Step 1 of a ConsumerGroupHeartbeat, or of a JoinGroup of a member on the classic protocol: the
member gets the fields of its request, and that may bump the group epoch
(docs/spec/consumer-group.md#3, "Changes when", and docs/spec/consumer-group.md#4, steps 3 to 5)."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from groupd.coordinator.core.consumer_group import events, records, regex
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.lookup import Resolved
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.regex import RegexChange
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.subscription import (
    TopicsChange,
    metadata_hash,
    preferred_assignor,
    preferred_assignor_after,
)
from groupd.coordinator.core.epochs import is_refresh_due, schedule_refresh
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.topic_names import canonical_names
from groupd.coordinator.core.types import Instant, Outcome, RequestContext, Task
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.records.schema import Record


def updated_member(
    member: ConsumerGroupMember, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupMember:
    """The member with the fields of the request that are not null; the same object if nothing
    differs."""
    if _is_known(member, context, request):
        return member
    names, regex = _subscription(request)
    updated = replace(
        member,
        instance_id=_given(request.instance_id, member.instance_id),
        rack_id=_given(request.rack_id, member.rack_id),
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms
        ),
        client_id=context.client_id,
        client_host=context.client_host,
        subscribed_topic_names=(
            member.subscribed_topic_names if names is None else canonical_names(names)
        ),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        server_assignor=_given(request.server_assignor, member.server_assignor),
        classic=None,
    )
    return member if updated == member else updated


def _subscription(
    request: ConsumerGroupHeartbeatRequest,
) -> tuple[tuple[str, ...] | None, str | None]:
    """Topic names and regular expression of the request; None = unchanged. A join gives the whole
    subscription: if it has only names, the member has no expression any more. Clients that join
    again with names send null for the expression. Kafka then keeps the old expression, and assigns
    its topics to a consumer that does not want them."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    if request.member_epoch == 0:
        return names or (), regex or ""
    return names, regex


def _is_known(
    member: ConsumerGroupMember, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> bool:
    """Whether the request has nothing that the member does not have already. That is the usual
    case, found without a copy of the member. If False, there may still be no difference."""
    names, regex = _subscription(request)
    return (
        names in (None, member.subscribed_topic_names)
        and regex in (None, member.subscribed_topic_regex)
        and request.rebalance_timeout_ms in (-1, member.rebalance_timeout_ms)
        and request.instance_id in (None, member.instance_id)
        and request.rack_id in (None, member.rack_id)
        and request.server_assignor in (None, member.server_assignor)
        and member.client_id == context.client_id
        and member.client_host == context.client_host
        and member.classic is None
    )


def _given(new: str | None, old: str | None) -> str | None:
    return old if new is None else new


class EpochDecision(Struct):
    """`epoch`: the group epoch after the operation; `refreshed`: whether topic metadata was looked
    at; `causes`: why the epoch was bumped, empty if it was not; `records`: [R3] [T4]."""

    epoch: int
    refreshed: bool = False
    causes: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


def decide_group_epoch(
    state: ShardState,
    group: ConsumerGroup,
    before: ConsumerGroupMember,
    updated: ConsumerGroupMember,
    regex_change: RegexChange,
    now: Instant,
    cause: str = "",
) -> EpochDecision:
    """Bump the group epoch once if there is any cause. `cause`: a cause that the caller knows, ""
    for none."""
    decision = EpochDecision(group.group_epoch)
    if updated is not before:
        decision.causes = _causes(state, group, before, updated, regex_change)
    if cause:
        decision.causes.append(cause)
    if not decision.causes and not is_refresh_due(group, now):
        return decision
    decision.refreshed = True
    change = TopicsChange()
    change.names(before, updated)
    if regex_change.dropped:
        change.add(group.regexes.topics_of(regex_change.dropped), -1)
    new_hash = metadata_hash(group, state.image, change)
    if not decision.causes and new_hash != group.metadata_hash:
        decision.causes.append("topic metadata changed")
    if decision.causes:
        decision.epoch += 1
        decision.records.append(records.group_epoch(group.group_id, decision.epoch, new_hash))
    if group.has_partition_metadata:
        decision.records.append(records.partition_metadata_tombstone(group.group_id))
    return decision


def _causes(
    state: ShardState,
    group: ConsumerGroup,
    before: ConsumerGroupMember,
    updated: ConsumerGroupMember,
    regex_change: RegexChange,
) -> list[str]:
    member_id = updated.member_id
    causes: list[str] = []
    if before.subscribed_topic_names != updated.subscribed_topic_names:
        is_new = member_id not in group.members and not before.subscribed_topic_names
        done = "joined" if is_new else "changed its topic names"
        causes.append(f"member {member_id} {done}")
    if regex_change.bump:
        causes.append(f"member {member_id} changed its regular expression")
    if before.server_assignor != updated.server_assignor:
        default = state.config.consumer_assignors[0]
        old = preferred_assignor(group.assignor_votes, default)
        new = preferred_assignor_after(group, before, updated, default)
        if old != new:
            causes.append(f"the preferred assignor changed from {old} to {new}")
    return causes


class MemberUpdate(Struct, frozen=True):
    """The result of step 1. `resolved`: the member before step 1; `updated`: the member with the
    fields of its request; `task`: a resolution of regular expressions that is to be started."""

    resolved: Resolved
    updated: ConsumerGroupMember
    epoch: EpochDecision
    subscription_changed: bool
    task: Task | None

    def note(self, state: ShardState, group: ConsumerGroup, now: Instant, outcome: Outcome) -> None:
        """Write the soft state of step 1, once nothing can fail any more."""
        if self.epoch.refreshed:
            schedule_refresh(group, self.epoch.epoch, now)
        if self.task is not None:
            soft_of(state).regex_tasks.add(group.group_id)
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
) -> MemberUpdate:
    """Step 1: the member's subscription and the group epoch. Adds records to the outcome, in the
    order [T8 T7 T5 R5 R7 R8] [R5] [T16] [R3] [T4], and events; changes nothing else.

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
    return MemberUpdate(resolved, updated, epoch, subscription_changed, task)
