"""The plan of a restore: what must be written to bring a group's offsets back to an earlier state.

Nothing is written for a topic that has been deleted, or deleted and created again: the old offsets
have no meaning in the new topic. Offsets that did not exist at that time are only deleted when that
is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from groupd.coordinator.core.slices import Steps, Work, run_through
from groupd.coordinator.history.changes import CommittedOffset
from groupd.protocol.messages import NO_TOPIC_ID, TopicId

Place = tuple[str, int]
Bounds = Mapping[Place, tuple[int, int]]
"""The first offset and the end of partitions."""


class Action(Enum):
    """What the restore does. `LEAVE`: the offset was not committed then, and stays. `SKIP`: it
    cannot be restored; the warning says why."""

    COMMIT = "commit"
    KEEP = "keep"
    DELETE = "delete"
    LEAVE = "leave"
    SKIP = "skip"


class Current(Struct, frozen=True):
    """A committed offset, with the fields that OffsetFetch and OffsetCommit have in common."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class TopicNow(Struct, frozen=True):
    topic_id: TopicId
    partitions: int


class RestoreStep(Struct, frozen=True):
    """What the restore does for one partition. `before` and `after`: committed offsets; None =
    none."""

    topic: str
    partition: int
    action: Action
    before: int | None
    after: int | None
    leader_epoch: int = -1
    metadata: str = ""
    warning: str = ""

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def is_write(self) -> bool:
        return self.action in (Action.COMMIT, Action.DELETE)

    @property
    def wanted(self) -> Current | None:
        """The offset that is committed after this step; None: no offset."""
        return None if self.after is None else Current(self.after, self.leader_epoch, self.metadata)


def plan(
    then: Sequence[CommittedOffset],
    now: Mapping[Place, Current],
    topics: Mapping[str, TopicNow],
    bounds: Bounds,
    *,
    delete_new: bool = False,
) -> list[RestoreStep]:
    """The steps by topic and partition."""
    return run_through(plan_steps(then, now, topics, bounds, delete_new=delete_new))


def plan_steps(
    then: Sequence[CommittedOffset],
    now: Mapping[Place, Current],
    topics: Mapping[str, TopicNow],
    bounds: Bounds,
    *,
    delete_new: bool,
) -> Steps[list[RestoreStep]]:
    """The same as `plan`, with stops."""
    wanted = {offset.place: offset for offset in then}
    work = Work()
    steps: list[RestoreStep] = []
    for place in sorted(wanted.keys() | now.keys()):
        if work.enough(4):
            yield
        current = now.get(place)
        if place in wanted:
            steps.append(_restore(wanted[place], current, topics.get(place[0]), bounds.get(place)))
        elif current is not None:
            action = Action.DELETE if delete_new else Action.LEAVE
            after = None if delete_new else current.offset
            steps.append(RestoreStep(*place, action, current.offset, after))
    return steps


def writes(steps: Iterable[RestoreStep]) -> list[RestoreStep]:
    """The steps that change what is committed."""
    return [step for step in steps if step.is_write]


def _restore(
    then: CommittedOffset,
    now: Current | None,
    topic: TopicNow | None,
    bounds: tuple[int, int] | None,
) -> RestoreStep:
    before = None if now is None else now.offset
    refusal = _refusal(then, topic)
    if refusal:
        return RestoreStep(then.topic, then.partition, Action.SKIP, before, before, warning=refusal)
    same = now == Current(then.offset, then.leader_epoch, then.metadata)
    return RestoreStep(
        then.topic,
        then.partition,
        Action.KEEP if same else Action.COMMIT,
        before,
        then.offset,
        then.leader_epoch,
        then.metadata,
        _warning(then.offset, bounds),
    )


def _refusal(then: CommittedOffset, topic: TopicNow | None) -> str:
    if topic is None:
        return "the topic does not exist any more"
    if NO_TOPIC_ID not in (then.topic_id, topic.topic_id) and then.topic_id != topic.topic_id:
        return "the topic was deleted and made anew since"
    if then.partition >= topic.partitions:
        return f"the topic has {topic.partitions} partitions only"
    return ""


def _warning(offset: int, bounds: tuple[int, int] | None) -> str:
    if bounds is None:
        return "the partition's offsets could not be asked for"
    start, end = bounds
    if not outside(offset, bounds):
        return ""
    if offset > end:
        return f"beyond the end of the partition ({end}): consumers will reset"
    return f"below the start of the partition ({start}): consumers will reset"


def outside(offset: int | None, bounds: tuple[int, int] | None) -> bool:
    """Whether the partition is known not to have the offset, so that consumers which begin there
    start where their `auto.offset.reset` says."""
    if offset is None or bounds is None:
        return False
    start, end = bounds
    return not start <= offset <= end
