"""The plan of a restore: what must be written to bring a group's offsets back to an earlier state.

Nothing is written for a topic that has been deleted, or deleted and created again: the old offsets
have no meaning in the new topic. Offsets that did not exist at that time are only deleted when that
is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from groupd.coordinator.history.changes import CommittedOffset
from groupd.protocol.messages import NO_TOPIC_ID, TopicId

Place = tuple[str, int]


class Action(Enum):
    """What the restore does. `LEAVE`: the offset was not committed then, and stays. `SKIP`: it
    cannot be restored; the warning says why."""

    COMMIT = "commit"
    KEEP = "keep"
    DELETE = "delete"
    LEAVE = "leave"
    SKIP = "skip"


class Current(Struct, frozen=True):
    """The answer of OffsetFetch now."""

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


def plan(
    then: Sequence[CommittedOffset],
    now: Mapping[Place, Current],
    topics: Mapping[str, TopicNow],
    bounds: Mapping[Place, tuple[int, int]],
    *,
    delete_new: bool = False,
) -> list[RestoreStep]:
    """The steps by topic and partition. `bounds`: the first offset and the end of each
    partition."""
    wanted = {(offset.topic, offset.partition): offset for offset in then}
    steps = [
        _restore(wanted[place], now.get(place), topics.get(place[0]), bounds.get(place))
        for place in wanted
    ]
    steps += [
        RestoreStep(
            topic,
            partition,
            Action.DELETE if delete_new else Action.LEAVE,
            current.offset,
            None if delete_new else current.offset,
        )
        for (topic, partition), current in now.items()
        if (topic, partition) not in wanted
    ]
    return sorted(steps, key=lambda step: (step.topic, step.partition))


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
    if offset > end:
        return f"beyond the end of the partition ({end}): consumers will reset"
    if offset < start:
        return f"below the start of the partition ({start}): consumers will reset"
    return ""
