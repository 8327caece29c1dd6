"""The plans of a reset and of a restore: which offset each partition of a group gets, and what its
consumers will do then.

A reset never moves a partition to an offset that it does not have, because consumers would then
start elsewhere. It takes the nearest offset, and a warning says so. A restore writes nothing for a
topic that has been deleted, or deleted and created again: the old offsets have no meaning in the
new topic. Offsets that did not exist at that time are deleted only on request.

Records are counted by their offsets, so compacted records and the markers of transactions are
included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.core.slices import Pace, Steps
from groupd.coordinator.history.changes import CommittedOffset
from groupd.protocol.messages import NO_TOPIC_ID, TopicId, TopicPartition

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Partition -> its first offset and its end."""


class ResetTarget(Enum):
    """Where to move offsets. `TIME`: to the first record of that time or later; to the end if there
    is none. `GROUP`: to where another group is."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"
    SHIFT = "shift"
    GROUP = "group"


class WantedReset(Struct, frozen=True):
    """A reset that was ordered. `amount`: the offset, the number of offsets to move by, or
    milliseconds since 1970, depending on `target`. `group_id`: the other group."""

    target: ResetTarget
    amount: int = 0
    group_id: str = ""


class MoveAction(Enum):
    """What is done with a partition. A reset moves back (`REWIND`), moves on (`FORWARD`), or
    commits the `FIRST` offset; a restore commits or deletes. `KEEP`: the offset is right already.
    `AGAIN`: it is right, but a share group gets it again, because that makes it forget which
    records behind it are finished. `LEAVE` and `SKIP`: nothing is written. A warning says why;
    without a warning the offset did not exist at the time of the restore."""

    REWIND = "rewind"
    FORWARD = "forward"
    FIRST = "first"
    COMMIT = "commit"
    DELETE = "delete"
    AGAIN = "again"
    KEEP = "keep"
    LEAVE = "leave"
    SKIP = "skip"


_WRITING = frozenset(MoveAction) - {MoveAction.KEEP, MoveAction.LEAVE, MoveAction.SKIP}


class Current(Struct, frozen=True):
    """A committed offset, with the fields that OffsetFetch and OffsetCommit have in common."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class TopicNow(Struct, frozen=True):
    """A topic as it is now. `partitions`: how many it has."""

    topic_id: TopicId
    partitions: int


class MoveStep(Struct, frozen=True):
    """What happens to one partition. `before` and `after`: the committed offsets; None: no offset.
    `records`: how many records are read again if the offset goes back, else how many are skipped;
    None: not known. `starts_anew`: consumers start where their `auto.offset.reset` says."""

    topic: str
    partition: int
    action: MoveAction
    before: int | None
    after: int | None
    leader_epoch: int = -1
    metadata: str = ""
    records: int | None = None
    warning: str = ""
    starts_anew: bool = False

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def is_write(self) -> bool:
        return self.action in _WRITING

    @property
    def row(self) -> dict[str, Any]:
        """The fields that the admin port and all commands show; each adds fields of its own."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.before,
            "to": self.after,
            "action": self.action.value,
        }

    @property
    def wanted(self) -> Current | None:
        """The offset that is committed after this step; None: no offset."""
        return None if self.after is None else Current(self.after, self.leader_epoch, self.metadata)


def plan_reset(
    wanted: WantedReset,
    partitions: Iterable[TopicPartition],
    now: Mapping[TopicPartition, Current],
    ranges: Ranges,
    found: Mapping[TopicPartition, int],
    *,
    again: bool = False,
) -> Steps[list[MoveStep]]:
    """Returns a step for each of `partitions`. `found`: the first offset of the time or later if
    the target is TIME, the offset of the other group if it is GROUP; a partition that has none is
    absent. `again`: write an offset that is right already, too."""
    pace, planned = Pace(), []
    for partition in partitions:
        if pace.due(4):
            yield
        current, exact = now.get(partition), found.get(partition)
        before = None if current is None else current.offset
        step = _reset(wanted, partition, before, ranges.get(partition), exact)
        if again and step.action is MoveAction.KEEP:
            step = replace(step, action=MoveAction.AGAIN, records=None)
        planned.append(step)
    return planned


def _reset(
    wanted: WantedReset,
    partition: TopicPartition,
    before: int | None,
    bounds: tuple[int, int] | None,
    found: int | None,
) -> MoveStep:
    if bounds is None:
        refusal = "there is no such partition, or it could not be asked"
        return MoveStep(*partition, MoveAction.LEAVE, before, before, warning=refusal)
    start, end = bounds
    if wanted.target is ResetTarget.SHIFT and before is None:
        refusal = "nothing is committed that could be moved"
        return MoveStep(*partition, MoveAction.LEAVE, None, None, warning=refusal)
    if wanted.target is ResetTarget.GROUP and found is None:
        refusal = f"group {wanted.group_id} has no offset there"
        return MoveStep(*partition, MoveAction.LEAVE, before, before, warning=refusal)
    exact = {
        ResetTarget.EARLIEST: start,
        ResetTarget.LATEST: end,
        ResetTarget.TIME: end if found is None else found,
        ResetTarget.GROUP: found or 0,
        ResetTarget.OFFSET: wanted.amount,
        ResetTarget.SHIFT: (before or 0) + wanted.amount,
    }[wanted.target]
    after = min(max(exact, start), end)
    if before is None:
        action = MoveAction.FIRST
    elif after == before:
        action = MoveAction.KEEP
    else:
        action = MoveAction.REWIND if after < before else MoveAction.FORWARD
    warning = ""
    if exact < start:
        warning = f"{exact} is below the start of the partition: {start} instead"
    elif exact > end:
        warning = f"{exact} is beyond the end of the partition: {end} instead"
    records = _records(before, after, bounds)
    return MoveStep(*partition, action, before, after, records=records, warning=warning)


def plan_restore(
    then: Sequence[CommittedOffset],
    now: Mapping[TopicPartition, Current],
    topics: Mapping[str, TopicNow],
    ranges: Ranges,
    *,
    delete_new: bool = False,
) -> Steps[list[MoveStep]]:
    """Returns a step for each partition that had or has an offset, by topic and partition."""
    wanted = {offset.place: offset for offset in then}
    pace, planned = Pace(), []
    for partition in sorted(wanted.keys() | now.keys()):
        if pace.due(4):
            yield
        current = now.get(partition)
        if partition in wanted:
            step = _restore(
                wanted[partition], current, topics.get(partition[0]), ranges.get(partition)
            )
            planned.append(step)
        elif current is not None and delete_new:
            planned.append(
                MoveStep(*partition, MoveAction.DELETE, current.offset, None, starts_anew=True)
            )
        elif current is not None:
            planned.append(MoveStep(*partition, MoveAction.LEAVE, current.offset, current.offset))
    return planned


def _restore(
    then: CommittedOffset,
    now: Current | None,
    topic: TopicNow | None,
    bounds: tuple[int, int] | None,
) -> MoveStep:
    before, after = None if now is None else now.offset, then.offset
    refusal = _refusal(then, topic)
    if refusal:
        return MoveStep(*then.place, MoveAction.SKIP, before, before, warning=refusal)
    same = now == Current(after, then.leader_epoch, then.metadata)
    warning = ""
    if bounds is None:
        warning = "the partition's offsets could not be asked for"
    elif after > bounds[1]:
        warning = f"beyond the end of the partition ({bounds[1]}): consumers will reset"
    elif after < bounds[0]:
        warning = f"below the start of the partition ({bounds[0]}): consumers will reset"
    starts_anew = not same and bounds is not None and not bounds[0] <= after <= bounds[1]
    return MoveStep(
        *then.place,
        MoveAction.KEEP if same else MoveAction.COMMIT,
        before,
        after,
        then.leader_epoch,
        then.metadata,
        None if starts_anew else _records(before, after, bounds),
        warning,
        starts_anew,
    )


def _refusal(then: CommittedOffset, topic: TopicNow | None) -> str:
    if topic is None:
        return "the topic does not exist any more"
    if NO_TOPIC_ID not in (then.topic_id, topic.topic_id) and then.topic_id != topic.topic_id:
        return "the topic was deleted and made anew since"
    if then.partition >= topic.partitions:
        return f"the topic has {topic.partitions} partitions only"
    return ""


def _records(before: int | None, after: int, bounds: tuple[int, int] | None) -> int | None:
    """Returns `MoveStep.records`. Only records that the partition still has are counted, since
    consumers cannot read others."""
    if before is None or after == before:
        return None if before is None else 0
    if bounds is None:
        return None
    start, end = bounds
    return min(before, end) - after if after < before else after - max(before, start)
