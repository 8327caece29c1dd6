"""The target assignment of a group (spec 6): when it is computed, and by whom."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

from msgspec import Struct, field

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    SubscriptionType,
)
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.consumer_group import next_heartbeats, records
from groupd.coordinator.core.consumer_group.errors import AssignorFailed
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.subscription import effective_subscription
from groupd.coordinator.core.consumer_group.target_checks import check_steps
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import Record


class TargetDecision(Struct, frozen=True):
    """`epoch` and `assignment`: what the heartbeating member reconciles with. `records`: R7*, R6;
    empty if nothing was computed. `moved`: members whose target changed."""

    epoch: int
    assignment: Assignment
    records: list[Record] = field(default_factory=list)
    moved: int = 0


def current_target(group: ConsumerGroup, member: ConsumerGroupMember) -> Assignment:
    """The stored target of a member; of a static one, that of the id its instance maps to."""
    owner = group.static_members.get(member.instance_id) if member.instance_id else None
    return group.targets.get(owner or member.member_id, NO_TARGET)


def is_due(
    group: ConsumerGroup, group_epoch: int, assignment_interval_ms: int, now: Instant
) -> bool:
    """Whether a new target must and may be computed now (KIP-1263). A time in the future says
    that the clock was set back: then nobody waits for it to come round again."""
    if group.assignment_epoch >= group_epoch:
        return False
    last = group.assignment_timestamp_ms
    if not last or not assignment_interval_ms or now.wall_ms < last:
        return True
    return now.wall_ms >= last + assignment_interval_ms


def compute(
    state: ShardState,
    group: ConsumerGroup,
    group_epoch: int,
    member: ConsumerGroupMember,
    replaced_id: str | None,
    assignor_name: str,
    now: Instant,
) -> TargetDecision:
    """Run the assignor over all members, `member` in its new form, the target of a replaced
    static member under the new id. Raises AssignorFailed."""
    speaks = next_heartbeats.expected(state, group, now, member.member_id)
    view = _view(group, member, replaced_id, state.image, speaks)
    targets = _run(state, assignor_name, view)
    changes: list[Record] = []
    for member_id, spec in view.members.items():
        target = targets[member_id]
        # A member that has no stored target differs even from an empty one. The record that
        # replaces a static member has just stored one for the new id.
        stored = member_id in group.targets or (
            replaced_id is not None and member_id == member.member_id
        )
        if not stored or target != spec.assigned:
            changes.append(records.target_member(group.group_id, member_id, target))
    moved = len(changes)
    changes.append(records.target_epoch(group.group_id, group_epoch, now.wall_ms))
    return TargetDecision(group_epoch, targets[member.member_id], changes, moved)


def _view(
    group: ConsumerGroup,
    updated: ConsumerGroupMember,
    replaced_id: str | None,
    image: MetadataImage,
    speaks: Callable[[str], int] | None,
) -> AssignmentSpec:
    ids = group.sorted_member_ids()
    if replaced_id is not None or updated.member_id not in group.members:
        ids = [member_id for member_id in ids if member_id != replaced_id]
        insort(ids, updated.member_id)
    topic_ids: dict[tuple[tuple[str, ...], str], frozenset[TopicId]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id in ids:
        member = updated if member_id == updated.member_id else group.members[member_id]
        key = (member.subscribed_topic_names, member.subscribed_topic_regex)
        subscribed = topic_ids.get(key)
        if subscribed is None:
            subscribed = effective_subscription(group, member, image).topic_ids()
            topic_ids[key] = subscribed
        if member is updated and replaced_id is not None:
            assigned = group.targets.get(replaced_id, NO_TARGET)
        else:
            assigned = group.targets.get(member_id, NO_TARGET)
        specs[member_id] = MemberSpec(subscribed, assigned, member.instance_id, member.rack_id)
    kind = subscription_type(list(topic_ids))
    return AssignmentSpec(specs, kind, keep_order=True, next_heartbeat=speaks)


def subscription_type(subscriptions: list[tuple[tuple[str, ...], str]]) -> SubscriptionType:
    """HOMOGENEOUS: all members give the same names, or all the same expression and no names."""
    if len(subscriptions) > 1 or any(names and pattern for names, pattern in subscriptions):
        return SubscriptionType.HETEROGENEOUS
    return SubscriptionType.HOMOGENEOUS


def _run(state: ShardState, name: str, view: AssignmentSpec) -> dict[str, Assignment]:
    assignor = state.assignors.get(name)
    if assignor is None:
        raise AssignorFailed(name, "the preferred assignor is not configured")
    topics = ImageDescriber(state.image)
    try:
        return run_through(check_steps(assignor.assign(view, topics), view, topics))
    except AssignorError as error:
        raise AssignorFailed(name, str(error)) from error
    except Exception as error:
        # A plug-in may raise anything; the heartbeat is answered and the shard lives on.
        raise AssignorFailed(name, f"{type(error).__name__}: {error}") from error
