"""The target of a large group, computed and installed in slices while other requests are served
(ADR 20). It is the same for consumer groups and share groups; the type says what is computed, and
which records that makes.

A task takes a snapshot of the group and does one slice of work in each turn of the event loop.
Members that join meanwhile get the next target. The records are written in parts, since a target of
thousands of members does not fit into one batch; the one that moves the assignment epoch comes
last. If the coordinator fails in between, it starts a new computation after the load.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from groupd.coordinator.core.epochs import EpochGroup
from groupd.coordinator.core.errors import AssignorFailed
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.slices import Steps, at_once
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.target_events import assignor_failed
from groupd.coordinator.core.types import Instant, Outcome, Task
from groupd.protocol.records.schema import Record

MEMBER_WEIGHT = 30
"""A member costs about as much to assign as this many partitions. A group is large if members
times this, plus the partitions of its topics, reach `consumer_large_group_size`."""

PART_MEMBERS = 64
"""At most this many target records are written in one batch: a batch has a limit in bytes, and a
target of thousands of members does not fit."""

PART_PARTITIONS = 4096
"""At most about this many partitions are in the target records of one batch."""

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

Target = TypeVar("Target")

TargetSteps = Generator[Outcome, Instant, None]
"""All the work for one target: it is sent the time of each slice and yields the slice's outcome.
Raises AssignorFailed."""


class TargetComputation(Struct):
    """The computation of one target. `steps`: the work that is left; `touched_ms`: monotonic time
    of its last slice; `failed`: its assignor has failed."""

    steps: TargetSteps
    touched_ms: int
    failed: bool = False


class LargeGroup(Group, EpochGroup, Protocol):
    """`computation` is soft state."""

    computation: TargetComputation | None


def is_large(state: ShardState, members: int, partitions: Iterable[int]) -> bool:
    """Whether the target of a group is computed in slices. `partitions`: how many each of its
    topics has, or what else costs as much as a partition; only looked at if the number of members
    does not decide it."""
    size_min = state.config.consumer_large_group_size
    size = members * MEMBER_WEIGHT
    return size >= size_min or size + sum(partitions) >= size_min


def request(kind: str, group: LargeGroup, now: Instant, outcome: Outcome) -> None:
    """A target is due: start its computation by a task of this kind, unless one is under way or the
    assignor has just failed."""
    if _holding_back(group, now) is None:
        outcome.tasks.append(_next_slice(kind, group.group_id, None))


def is_under_way(group: LargeGroup, now: Instant) -> bool:
    computation = _holding_back(group, now)
    return computation is not None and not computation.failed


def has_failed(group: LargeGroup, now: Instant) -> bool:
    """Whether the assignor has just failed, so that no heartbeat should wait for its target."""
    computation = _holding_back(group, now)
    return computation is not None and computation.failed


def _holding_back(group: LargeGroup, now: Instant) -> TargetComputation | None:
    """The computation that prevents another one from starting for the group."""
    computation = group.computation
    if computation is None:
        return None
    patience_ms = RETRY_MS if computation.failed else STALE_MS
    return computation if now.monotonic_ms < computation.touched_ms + patience_ms else None


def is_requested(kind: str, group: LargeGroup, outcome: Outcome) -> bool:
    """Whether a target is being computed, or `outcome` starts the computation."""
    if group.computation is not None and not group.computation.failed:
        return True
    return any(task.kind == kind for task in outcome.tasks)


def come_back_ms(group: LargeGroup, assigned: object, interval_ms: int) -> int:
    """The heartbeat interval, in ms, of a reply that is sent while a target is being computed. It
    is shorter than `interval_ms` for a member to which nothing is `assigned`, since it gets
    partitions only with the target."""
    if assigned:
        return interval_ms
    steps = 1 + len(group.members) // COME_BACK_MEMBERS
    return min(interval_ms, COME_BACK_MS * steps)


def go_on(
    task: Task,
    result: TargetComputation | None,
    group: LargeGroup,
    now: Instant,
    steps_if_due: Callable[[], TargetSteps | None],
) -> Outcome:
    """Do the next slice after `task`. `result`: the computation that the slice belongs to, or None
    to start one. `steps_if_due`: the work for a new target, None if none is due any more."""
    computation = result
    if computation is None:
        computation = _start(group, now, steps_if_due)
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
        return Outcome(tasks=[_next_slice(task.kind, group.group_id, None)])
    except AssignorFailed as failure:
        computation.failed = True
        return Outcome(events=[assignor_failed(group.type_name, group.group_id, "", failure)])
    outcome.tasks.append(_next_slice(task.kind, group.group_id, computation))
    return outcome


def _next_slice(kind: str, group_id: str, computation: TargetComputation | None) -> Task:
    """A task that only lets other requests be served before `go_on` does the work."""
    return Task(kind, group_id, lambda: at_once(computation))


def _start(
    group: LargeGroup, now: Instant, steps_if_due: Callable[[], TargetSteps | None]
) -> TargetComputation | None:
    """Start a computation, unless another one is under way or no target is due."""
    if _holding_back(group, now) is not None or not group.members:
        return None
    steps = steps_if_due()
    if steps is None:
        return None
    next(steps)
    group.computation = TargetComputation(steps, now.monotonic_ms)
    return group.computation


def target_steps(
    group: LargeGroup,
    epoch: int,
    computing: Steps[Target],
    found: Callable[[Target], Iterator[Record | None]],
    last: Callable[[Target, Instant], Outcome],
) -> TargetSteps:
    """All the work for the target of `epoch`: computes it, writes the records of `found` in parts,
    then has the outcome `last`. It ends early if the group has got this target or a newer one in
    another way. `found` makes each record when it is asked for it, and so from the group as it is
    then; None means that many members needed no record, and the slice should end."""
    now = yield Outcome()
    while True:
        try:
            next(computing)
        except StopIteration as ended:
            target: Target = ended.value
            break
        now = yield Outcome()
    if group.assignment_epoch >= epoch:
        return
    for part in _parts(found(target)):
        now = yield Outcome(records=part, gate=group.group_id)
        if group.assignment_epoch >= epoch:
            return
    yield last(target, now)


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
