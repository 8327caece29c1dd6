"""The target assignment of a share group (docs/spec/share-group.md#2.2, step 5): when one is due,
and how it is computed. The members get initialized partitions only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any

from groupd.coordinator.core import large_targets
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
from groupd.coordinator.core.slices import Pace, Steps, run_through
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, Task
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import Record

TASK_KIND = "share-target"

SLICE_PARTITIONS = 4096
"""About this many partitions are checked in one slice."""


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
    its records, R13* R12, are added to the outcome. In a large group a task computes it
    (`large_targets`), and until it is there the members have the stored one. Raises
    AssignorFailed."""
    group_id, member_id = group.group_id, member.member_id
    stored = group.assignment_epoch, group.targets.get(member_id, NO_TARGET)
    if not _is_due(state, group, group_epoch, now):
        return stored
    if _is_large(state, group):
        large_targets.request(TASK_KIND, group, now, outcome)
        return stored
    members = {**group.members, member_id: member}
    changed = run_through(_changed(state, group, members))
    for one, target in changed.items():
        outcome.records.append(records.target_member(group_id, one, target))
    last = _installed(state, group_id, group_epoch, len(changed), len(members), now)
    outcome.records += last.records
    outcome.events += last.events
    return group_epoch, changed.get(member_id, stored[1])


def task_done(state: ShardState, task: Task, result: Any, now: Instant) -> Outcome:
    """The next slice of a large group's target; `result` as in `large_targets.go_on`."""
    group = state.groups.get(task.group_id)
    if not isinstance(group, ShareGroup):
        return Outcome()
    return large_targets.go_on(task, result, group, now, lambda: _steps(state, group, now))


def _is_due(state: ShardState, group: ShareGroup, group_epoch: int, now: Instant) -> bool:
    interval_ms = assignment_interval_ms(state, group.group_id)
    return is_next_target_due(group, group_epoch, interval_ms, now)


def _is_large(state: ShardState, group: ShareGroup) -> bool:
    """Counts each subscription of a member to a topic as a partition, since members with different
    subscriptions get topic by topic."""
    partitions = (len(numbers) for numbers in group.initialized.values())
    subscriptions = group.name_subscribers.values()
    return large_targets.is_large(state, len(group.members), chain(partitions, subscriptions))


def _steps(state: ShardState, group: ShareGroup, now: Instant) -> large_targets.TargetSteps | None:
    epoch, members = group.group_epoch, dict(group.members)
    if not _is_due(state, group, epoch, now):
        return None

    def found(changed: Mapping[str, Assignment]) -> Iterator[Record]:
        for member_id, target in changed.items():
            if member_id in group.members:
                yield records.target_member(group.group_id, member_id, target)

    return large_targets.target_steps(
        group,
        epoch,
        _changed(state, group, members),
        found,
        lambda changed, now: _installed(
            state, group.group_id, epoch, len(changed), len(members), now
        ),
    )


def _installed(
    state: ShardState, group_id: str, epoch: int, moved: int, members: int, now: Instant
) -> Outcome:
    """R12, which comes after the targets of the `moved` members."""
    name = state.share_assignor.name
    return Outcome(
        records=[records.target_epoch(group_id, epoch, now.wall_ms)],
        gate=group_id,
        events=[events.target_installed(group_id, epoch, name, moved=moved, members=members)],
    )


def _changed(
    state: ShardState, group: ShareGroup, members: Mapping[str, ShareGroupMember]
) -> Steps[dict[str, Assignment]]:
    """The new targets of the members whose target changes, by id, in ascending order. Takes what it
    needs of the group when it is started: all of it is replaced and never changed."""
    image, assignor = state.image, state.share_assignor
    targets, assignable = dict(group.targets), group.initialized
    specs: dict[str, MemberSpec] = {}
    subscribed: dict[tuple[str, ...], frozenset[TopicId]] = {}
    pace = Pace()
    for member_id in sorted(members):
        member = members[member_id]
        names = member.subscribed_topic_names
        if names not in subscribed:
            subscribed[names] = subscribed_topic_ids(member, image)
        specs[member_id] = MemberSpec(
            subscribed[names],
            # Read-only, so that a plug-in cannot change what the group has stored.
            MappingProxyType(targets.get(member_id, NO_TARGET)),
            rack_id=member.rack_id,
        )
        if pace.due(1 + len(names)):
            yield
    is_mixed = len(subscribed) > 1
    kind = SubscriptionType.HETEROGENEOUS if is_mixed else SubscriptionType.HOMOGENEOUS
    spec = AssignmentSpec(specs, kind, keep_order=True, assignable=assignable)
    new = yield from assigned_steps(
        assignor, assignor.name, spec, ImageDescriber(image), _check_steps
    )
    return {one: target for one, target in new.items() if targets.get(one) != target}


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
    pace = Pace(SLICE_PARTITIONS)
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
        if pace.due(1 + sum(map(len, target.values()))):
            yield
    return targets
