"""The target of a large consumer group, computed and installed in slices (`large_targets`).

The heartbeats that have found the target due wait for it (`shared_target`). Of the records, first
come the targets that shrink, then those that grow, then R6. So at every point of the log no
partition is in two targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.subscription import preferred_assignor
from groupd.coordinator.core.consumer_group.target_assignment import (
    GroupSnapshot,
    compute,
    is_target_due,
    next_heartbeat_times,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, Task
from groupd.protocol.records.schema import Record

TASK_KIND = "target"

UNCHANGED_MEMBERS = 1024
"""At most this many members that need no record are skipped in one slice."""


def is_large(state: ShardState, group: ConsumerGroup) -> bool:
    """Whether the group's target is computed in slices."""
    by_name = state.image.by_name
    known = (by_name.get(name) for name in group.subscribed_topics())
    partitions = (topic.partitions for topic in known if topic is not None)
    return large_targets.is_large(state, len(group.members), partitions)


def complete(state: ShardState, task: Task, result: Any, now: Instant) -> Outcome:
    """Do the next slice; `result` as in `large_targets.go_on`."""
    group = state.groups.get(task.group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    return large_targets.go_on(task, result, group, now, lambda: _steps(state, group, now))


def _steps(
    state: ShardState, group: ConsumerGroup, now: Instant
) -> large_targets.TargetSteps | None:
    epoch, group_id = group.group_epoch, group.group_id
    if not is_target_due(state, group, epoch, now):
        return None
    name = preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0])
    snapshot = GroupSnapshot(group, state.image)
    next_heartbeat = next_heartbeat_times(state, group, now)

    def last(changed: Mapping[str, Assignment], now: Instant) -> Outcome:
        moved, members = len(changed), len(snapshot.member_ids)
        return Outcome(
            records=[records.target_epoch(group_id, epoch, now.wall_ms)],
            gate=group_id,
            events=[events.target_installed(group_id, epoch, name, moved=moved, members=members)],
        )

    return large_targets.target_steps(
        group,
        epoch,
        compute(snapshot, state.assignors.get(name), name, next_heartbeat),
        lambda changed: _target_records(group, snapshot, changed),
        last,
    )


def _target_records(
    group: ConsumerGroup, snapshot: GroupSnapshot, changed: Mapping[str, Assignment]
) -> Iterator[Record | None]:
    """The R7 records of the members that are still in the group, first of those whose target
    shrinks. Each record is made when the iterator reaches it, so that it takes into account the
    records of the parts before. None means that many members needed no record, and the slice should
    end."""
    done: set[str] = set()
    for number, (old_id, target) in enumerate(changed.items()):
        if number % UNCHANGED_MEMBERS == 0:
            yield None
        member_id = _present_id(group, snapshot, old_id)
        stored = group.targets.get(member_id, NO_TARGET)
        kept = _intersection(stored, target)
        if member_id and kept != stored:
            if kept == target:
                done.add(member_id)
            yield records.target_member(group.group_id, member_id, kept)
    for old_id, target in changed.items():
        member_id = _present_id(group, snapshot, old_id)
        if member_id and member_id not in done:
            yield records.target_member(group.group_id, member_id, target)


def _present_id(group: ConsumerGroup, snapshot: GroupSnapshot, member_id: str) -> str:
    """The id under which a member of the snapshot is in the group now, or "" if it has left. A
    static member may have been replaced meanwhile: its target belongs to the instance."""
    if member_id in group.members:
        return member_id
    instance_id = snapshot.members[member_id].instance_id
    return group.static_members.get(instance_id, "") if instance_id else ""


def _intersection(stored: Assignment, target: Assignment) -> Assignment:
    common = {
        topic_id: tuple(sorted(set(partitions).intersection(target[topic_id])))
        for topic_id, partitions in stored.items()
        if topic_id in target
    }
    return {topic_id: partitions for topic_id, partitions in common.items() if partitions}
