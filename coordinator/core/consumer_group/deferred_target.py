"""The target of a large group, computed and installed in slices while others are served.

A heartbeat of a small group computes the target itself, as in Kafka. In a large one that would keep
everybody else waiting, so its heartbeat only starts a task. It is parked meanwhile (`gather`), or,
if that is off, goes on with the stored target, as within the assignment interval. The task takes a
snapshot of the group and works on that, one slice a turn of the loop; members that come meanwhile
are for the next target.

The records are written in parts: a target of thousands of members fits into no batch. Everything
before the last one, R6, leaves the epoch where it was. First come the targets that shrink, then
those that grow, so that at every point of the log no partition stands in two targets: a coordinator
that ends in between goes on from there with a new computation.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group import events, records
from groupd.coordinator.core.consumer_group.computation import Computation
from groupd.coordinator.core.consumer_group.errors import AssignorFailed
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.subscription import preferred_assignor
from groupd.coordinator.core.consumer_group.target_assignment import is_due
from groupd.coordinator.core.consumer_group.target_snapshot import Change, Snapshot
from groupd.coordinator.core.group_configs import assignment_interval_ms, offloads_assignor
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, Task
from groupd.protocol.records.schema import Record

TASK_KIND = "target"

MEMBER_WEIGHT = 30
"""A member costs as much as so many partitions."""

PART_MEMBERS = 64
PART_PARTITIONS = 4096
"""At most so many targets and, roughly, partitions are written in one go."""

SEEN_MEMBERS = 1024
"""At most so many members are looked at in one go if nothing is written for them."""

COME_BACK_MS = 250
"""A member without partitions asks again after so many ms for each 2,500 of its group, not after
the whole heartbeat interval, while a target is under way."""

COME_BACK_MEMBERS = 2500


def is_large(state: ShardState, group: ConsumerGroup) -> bool:
    """Whether the group's target is to be computed apart."""
    if not offloads_assignor(state.config, state.group_configs.get(group.group_id)):
        return False
    size_min = state.config.consumer_assignor_offload_min_size
    size = len(group.members) * MEMBER_WEIGHT
    if size >= size_min:
        return True
    by_name = state.image.by_name
    known = (by_name.get(name) for name in group.subscribed_topics())
    return size + sum(topic.partitions for topic in known if topic is not None) >= size_min


def request(group: ConsumerGroup, now: Instant, outcome: Outcome) -> None:
    """A target is due: start its computation unless one is under way."""
    if group.computation is None or not group.computation.holds_back(now):
        outcome.tasks.append(_task(group.group_id, None))


def is_under_way(group: ConsumerGroup, now: Instant) -> bool:
    """Whether a computation is at work, or was not long ago."""
    computation = group.computation
    return computation is not None and not computation.failed and computation.holds_back(now)


def has_failed(group: ConsumerGroup, now: Instant) -> bool:
    """Whether the assignor has just failed: nobody is to wait for it."""
    computation = group.computation
    return computation is not None and computation.failed and computation.holds_back(now)


def is_asked_for(group: ConsumerGroup, outcome: Outcome) -> bool:
    """Whether a target is on its way, or is with this outcome."""
    if group.computation is not None and not group.computation.failed:
        return True
    return any(task.kind == TASK_KIND for task in outcome.tasks)


def come_back_ms(group: ConsumerGroup, member: ConsumerGroupMember, interval_ms: int) -> int:
    """When a member is to send its next heartbeat while a target is on its way: earlier if it has
    nothing to do before that comes."""
    if member.assigned:
        return interval_ms
    return min(interval_ms, COME_BACK_MS * (1 + len(group.members) // COME_BACK_MEMBERS))


def complete(state: ShardState, task: Task, result: Any, now: Instant) -> Outcome:
    """The next slice; `result` is the computation it belongs to, None for a new one."""
    group = state.groups.get(task.group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    computation: Computation | None = result
    if computation is None:
        computation = _start(state, group, now)
    elif group.computation is not computation:
        computation = None
    if computation is None:
        return Outcome()
    computation.touched_ms = now.monotonic_ms
    try:
        outcome = computation.steps.send(now)
    except StopIteration:
        group.computation = None
        return Outcome(tasks=[_task(group.group_id, None)])
    except AssignorFailed as failure:
        computation.failed = True
        return Outcome(events=[events.assignor_failed(group.group_id, "", failure)])
    outcome.tasks.append(_task(group.group_id, computation))
    return outcome


def _task(group_id: str, computation: Computation | None) -> Task:
    """Nothing but a turn for others."""
    return Task(TASK_KIND, group_id, lambda: computation)


def _start(state: ShardState, group: ConsumerGroup, now: Instant) -> Computation | None:
    """None: there is nothing to do any more, or somebody else does it."""
    if group.computation is not None and group.computation.holds_back(now):
        return None
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group.group_id))
    if not group.members or not is_due(group, group.group_epoch, interval_ms, now):
        return None
    steps = _steps(state, group, now)
    next(steps)
    group.computation = Computation(steps, now)
    return group.computation


def _steps(
    state: ShardState, group: ConsumerGroup, now: Instant
) -> Generator[Outcome, Instant, None]:
    """The whole work; takes the time of each slice. Raises AssignorFailed."""
    epoch = group.group_epoch
    name = preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0])
    snapshot = Snapshot(state, group, now)
    now = yield Outcome()
    changes: list[Change] = []
    for _ in snapshot.fill(changes, state.assignors.get(name), name):
        now = yield Outcome()
    if group.assignment_epoch >= epoch:
        return
    for part in _parts(_written(group, changes)):
        now = yield Outcome(records=part, gate=group.group_id)
        if group.assignment_epoch >= epoch:
            return
    yield Outcome(
        records=[records.target_epoch(group.group_id, epoch, now.wall_ms)],
        gate=group.group_id,
        events=[events.target_installed(group.group_id, epoch, name, len(changes))],
    )


def _written(group: ConsumerGroup, changes: Sequence[Change]) -> Iterator[Record | None]:
    """R7 of the members that are still there; made lazily, so that each sees what the parts
    before it have become. A static member that was replaced meanwhile has its target under its
    new id. None: a stop where nothing was to be written for long."""
    settled: set[str] = set()
    for number, change in enumerate(changes):
        if number % SEEN_MEMBERS == 0:
            yield None
        member_id = _present(group, change)
        stored = group.targets.get(member_id, NO_TARGET)
        left = _common(stored, change.target)
        if member_id and left != stored:
            if left == change.target:
                settled.add(member_id)
            yield records.target_member(group.group_id, member_id, left)
    for change in changes:
        member_id = _present(group, change)
        if member_id and member_id not in settled:
            yield records.target_member(group.group_id, member_id, change.target)


def _present(group: ConsumerGroup, change: Change) -> str:
    """The id under which the member is in the group now, or empty."""
    if change.member_id in group.members:
        return change.member_id
    return group.static_members.get(change.instance_id, "") if change.instance_id else ""


def _common(stored: Assignment, target: Assignment) -> Assignment:
    common = {
        topic_id: tuple(sorted(set(partitions).intersection(target[topic_id])))
        for topic_id, partitions in stored.items()
        if topic_id in target
    }
    return {topic_id: partitions for topic_id, partitions in common.items() if partitions}


def _parts(written: Iterator[Record | None]) -> Iterator[list[Record]]:
    """As many records as are quickly applied, and surely fit into a batch; perhaps none."""
    part: list[Record] = []
    partitions = 0
    for record in written:
        if record is not None:
            part.append(record)
            value: Any = record.value
            partitions += sum(len(topic.partitions) for topic in value.topics)
        if record is None or len(part) >= PART_MEMBERS or partitions >= PART_PARTITIONS:
            yield part
            part, partitions = [], 0
    if part:
        yield part
