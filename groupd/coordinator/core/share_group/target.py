"""The target assignment of a share group (docs/spec/share-group.md#2.2, step 5): when one is due,
and how it is computed. The members get initialized partitions only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.run import assigned_steps
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.epochs import is_next_target_due
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.share_group import events, records
from groupd.coordinator.core.share_group.configs import ASSIGNMENT_INTERVAL
from groupd.coordinator.core.share_group.group import NO_TARGET, ShareGroup
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.slices import Steps, run_through
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome
from groupd.protocol.messages import TopicId


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    return ASSIGNMENT_INTERVAL.number(state.config, state.group_configs.get(group_id))


def install_if_due(
    state: ShardState,
    group: ShareGroup,
    member: ShareGroupMember,
    group_epoch: int,
    now: Instant,
    outcome: Outcome,
) -> tuple[int, Assignment]:
    """The epoch of the target after this operation, and the target of `member`, which is as the
    operation changes it and may not be in the group yet. If a new target is due it is computed, and
    its records, R13* R12, are added to the outcome. Raises AssignorFailed."""
    member_id = member.member_id
    interval_ms = assignment_interval_ms(state, group.group_id)
    if not is_next_target_due(group, group_epoch, interval_ms, now):
        return group.assignment_epoch, group.targets.get(member_id, NO_TARGET)
    members = {**group.members, member_id: member}
    targets = _computed(state, group, members)
    group_id = group.group_id
    changed = {one: its for one, its in targets.items() if group.targets.get(one) != its}
    for one, target in changed.items():
        outcome.records.append(records.target_member(group_id, one, target))
    outcome.records.append(records.target_epoch(group_id, group_epoch, now.wall_ms))
    name = state.share_assignor.name
    outcome.events.append(
        events.event(
            EventKind.TARGET_INSTALLED,
            group_id,
            epoch=group_epoch,
            cause=f"computed by {name}",
            details={"assignor": name, "moved_members": len(changed), "members": len(members)},
        )
    )
    return group_epoch, targets[member_id]


def _computed(
    state: ShardState, group: ShareGroup, members: Mapping[str, ShareGroupMember]
) -> dict[str, Assignment]:
    specs = {
        member_id: MemberSpec(
            subscribed_topic_ids(members[member_id], state.image),
            # Read-only, so that a plug-in cannot change what the group has stored.
            MappingProxyType(group.targets.get(member_id, NO_TARGET)),
            rack_id=members[member_id].rack_id,
        )
        for member_id in sorted(members)
    }
    names = {member.subscribed_topic_names for member in members.values()}
    kind = SubscriptionType.HETEROGENEOUS if len(names) > 1 else SubscriptionType.HOMOGENEOUS
    spec = AssignmentSpec(specs, kind, keep_order=True, assignable=group.initialized)
    assignor = state.share_assignor
    steps = assigned_steps(assignor, assignor.name, spec, ImageDescriber(state.image), _check_steps)
    return run_through(steps)


def subscribed_topic_ids(member: ShareGroupMember, image: MetadataImage) -> frozenset[TopicId]:
    """The ids of the existing topics that the member subscribes to."""
    by_name = image.by_name
    names = member.subscribed_topic_names
    return frozenset(by_name[name].topic_id for name in names if name in by_name)


def _check_steps(
    result: Any, spec: AssignmentSpec, topics: TopicDescriber
) -> Steps[dict[str, Assignment]]:
    """Returns the assignor's `result` with an entry for every member, topics and partitions
    ascending and without empty topics. Raises AssignorError, which names the first fault: somebody
    who is no member, a topic that the member does not subscribe to, a partition that is not
    initialized. Several members may have a partition."""
    unknown = sorted(map(str, set(result) - spec.members.keys()))
    if unknown:
        raise AssignorError(f"{unknown[0]} is not a member of the group")
    targets: dict[str, Assignment] = {}
    for member_id, member in spec.members.items():
        given = result.get(member_id, NO_TARGET)
        target = {topic: tuple(sorted(set(given[topic]))) for topic in sorted(given)}
        for topic_id, numbers in target.items():
            name = topics.name(topic_id) or topic_id.hex()
            if topic_id not in member.topic_ids:
                raise AssignorError(f"{member_id} got {name}, to which it is not subscribed")
            for number in numbers:
                if not spec.is_assignable(topic_id, number):
                    raise AssignorError(
                        f"{member_id} got {name}-{number}, which is not initialized"
                    )
        targets[member_id] = {topic: numbers for topic, numbers in target.items() if numbers}
        yield
    return targets
