"""The target of a large group, computed and installed in slices while other requests are served
(ADR 20).

If it were computed in one go, all other requests would have to wait. So a task takes a snapshot of
the group and does one slice of work in each turn of the event loop. The heartbeats that have found
the target due wait for it (`shared_target`). Members that join meanwhile get the next target.

The records are written in parts, since a target of thousands of members does not fit into one
batch. First come the targets that shrink, then those that grow. R6, which moves the assignment
epoch, comes last. So at every point of the log no partition is in two targets. If the coordinator
fails in between, it starts a new computation from there after the load.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.group import (
    NO_TARGET,
    ConsumerGroup,
    TargetComputation,
)
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.subscription import preferred_assignor
from groupd.coordinator.core.consumer_group.target_assignment import (
    GroupSnapshot,
    compute,
    is_target_due,
    next_heartbeat_times,
)
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.slices import at_once
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, Task
from groupd.protocol.records.schema import Record

TASK_KIND = "target"

MEMBER_WEIGHT = 30
"""A member costs about as much to assign as this many partitions. A group is large if members
times this, plus the partitions of its topics, reach `consumer_large_group_size`."""

PART_MEMBERS = 64
"""At most this many target records are written in one batch: a batch has a limit in bytes, and a
target of thousands of members does not fit."""

PART_PARTITIONS = 4096
"""At most about this many partitions are in the target records of one batch."""

UNCHANGED_MEMBERS = 1024
"""At most this many members that need no record are skipped in one slice."""

STALE_MS = 30_000
"""A computation that has not gone on for this long was lost, because its records were refused. The
next heartbeat that finds a target due starts a new one."""

RETRY_MS = 1000
"""After the assignor has failed in a large group it is not called again for this long."""

COME_BACK_MS = 250
"""A member without partitions may have to be answered before its target is there. Then the reply
tells it to send its next heartbeat after this long, for each started `COME_BACK_MEMBERS` of its
group, and not after a whole heartbeat interval."""

COME_BACK_MEMBERS = 2500
"""See `COME_BACK_MS`: the larger the group, the longer its target takes."""


def is_large(state: ShardState, group: ConsumerGroup) -> bool:
    """Whether the group's target is computed in slices."""
    size_min = state.config.consumer_large_group_size
    size = len(group.members) * MEMBER_WEIGHT
    if size >= size_min:
        return True
    by_name = state.image.by_name
    known = (by_name.get(name) for name in group.subscribed_topics())
    return size + sum(topic.partitions for topic in known if topic is not None) >= size_min


def request(group: ConsumerGroup, now: Instant, outcome: Outcome) -> None:
    """A target is due: start its computation, unless one is under way or the assignor has just
    failed."""
    if _holding_back(group, now) is None:
        outcome.tasks.append(_next_slice(group.group_id, None))


def is_under_way(group: ConsumerGroup, now: Instant) -> bool:
    computation = _holding_back(group, now)
    return computation is not None and not computation.failed


def has_failed(group: ConsumerGroup, now: Instant) -> bool:
    """Whether the assignor has just failed, so that no heartbeat should wait for its target."""
    computation = _holding_back(group, now)
    return computation is not None and computation.failed


def _holding_back(group: ConsumerGroup, now: Instant) -> TargetComputation | None:
    """The computation that prevents another one from starting for the group."""
    computation = group.computation
    if computation is None:
        return None
    patience_ms = RETRY_MS if computation.failed else STALE_MS
    return computation if now.monotonic_ms < computation.touched_ms + patience_ms else None


def is_requested(group: ConsumerGroup, outcome: Outcome) -> bool:
    """Whether a target is being computed, or `outcome` starts the computation."""
    if group.computation is not None and not group.computation.failed:
        return True
    return any(task.kind == TASK_KIND for task in outcome.tasks)


def come_back_ms(group: ConsumerGroup, member: ConsumerGroupMember, interval_ms: int) -> int:
    """The heartbeat interval, in ms, of a reply that is sent while a target is being computed. It
    is shorter than `interval_ms` for a member that has no partitions, since it gets some only with
    the target."""
    if member.assigned:
        return interval_ms
    steps = 1 + len(group.members) // COME_BACK_MEMBERS
    return min(interval_ms, COME_BACK_MS * steps)


def complete(state: ShardState, task: Task, result: Any, now: Instant) -> Outcome:
    """Do the next slice. `result`: the TargetComputation that the slice belongs to, or None to
    start a computation."""
    group = state.groups.get(task.group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    computation: TargetComputation | None = result
    if computation is None:
        computation = _start(state, group, now)
    elif group.computation is not computation:
        return Outcome()
    if computation is None:
        return Outcome()
    computation.touched_ms = now.monotonic_ms
    try:
        outcome = computation.steps.send(now)
    except StopIteration:
        group.computation = None
        # The group may have changed meanwhile, so another target may be due.
        return Outcome(tasks=[_next_slice(group.group_id, None)])
    except AssignorFailed as failure:
        computation.failed = True
        return Outcome(events=[events.assignor_failed(group.group_id, "", failure)])
    outcome.tasks.append(_next_slice(group.group_id, computation))
    return outcome


def _next_slice(group_id: str, computation: TargetComputation | None) -> Task:
    """A task that only lets other requests be served before `complete` does the work."""
    return Task(TASK_KIND, group_id, lambda: at_once(computation))


def _start(state: ShardState, group: ConsumerGroup, now: Instant) -> TargetComputation | None:
    """Start a computation. Returns None if no target is due any more, or another computation is
    under way."""
    if _holding_back(group, now) is not None:
        return None
    if not group.members or not is_target_due(state, group, group.group_epoch, now):
        return None
    steps = _steps(state, group, now)
    next(steps)
    group.computation = TargetComputation(steps, now.monotonic_ms)
    return group.computation


def _steps(
    state: ShardState, group: ConsumerGroup, now: Instant
) -> Generator[Outcome, Instant, None]:
    """All the work, as a generator: it is sent the time of each slice and yields the slice's
    outcome. It ends early if the group has got a newer target in another way. Raises
    AssignorFailed."""
    epoch = group.group_epoch
    name = preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0])
    snapshot = GroupSnapshot(group, state.image)
    next_heartbeat = next_heartbeat_times(state, group, now)
    now = yield Outcome()
    computing = compute(snapshot, state.assignors.get(name), name, next_heartbeat)
    while True:
        try:
            next(computing)
        except StopIteration as ended:
            changed: dict[str, Assignment] = ended.value
            break
        now = yield Outcome()
    if group.assignment_epoch >= epoch:
        return
    for part in _parts(_target_records(group, snapshot, changed)):
        now = yield Outcome(records=part, gate=group.group_id)
        if group.assignment_epoch >= epoch:
            return
    installed = events.target_installed(
        group.group_id, epoch, name, moved=len(changed), members=len(snapshot.member_ids)
    )
    yield Outcome(
        records=[records.target_epoch(group.group_id, epoch, now.wall_ms)],
        gate=group.group_id,
        events=[installed],
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


def _parts(found: Iterator[Record | None]) -> Iterator[list[Record]]:
    """The records of one slice at a time, possibly none. A slice has only so many that they surely
    fit into a batch."""
    part: list[Record] = []
    partitions = 0
    for record in found:
        if record is not None:
            part.append(record)
            value: Any = record.value
            partitions += sum(len(topic.partitions) for topic in value.topics)
        if record is None or len(part) >= PART_MEMBERS or partitions >= PART_PARTITIONS:
            yield part
            part, partitions = [], 0
    if part:
        yield part
