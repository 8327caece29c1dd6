"""Resets and restores of a group's offsets, for an operator: first a plan of what would be done,
then the writes.

The code uses a group through the interface `GroupOffsets`. The console moves offsets of a group in
its own broker (`own_broker.py`), the command line over a connection to any Kafka cluster.

Offsets are written as OffsetCommit and OffsetDelete without a member, which a coordinator refuses
while the group has members. They are written only if the group has no members and no offset has
moved since the plan was shown. Afterwards the offsets are read back, to see that they are as they
should be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from groupd.coordinator.core.slices import Steps, dict_in_steps, distinct_in_steps, sorted_in_steps
from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.moves.plan import (
    Current,
    MoveStep,
    Ranges,
    ResetTarget,
    TopicNow,
    WantedReset,
    plan_reset,
    plan_restore,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicPartition

PART_BYTES = 400_000
"""The most bytes of the records of one request, so that they fit into one batch of the
coordinator."""

PART_PARTITIONS = 250
"""The most partitions of one request, so that the coordinator handles the request at once: it
writes either all of it or nothing."""

_RECORD_BYTES = 100
"""The most bytes of the record of an offset, without the names and the metadata."""

_WITHOUT_MEMBERS = ("", "Empty", "Dead")

_OUTCOME_NOT_KNOWN = frozenset(
    error.name
    for error in (
        # A write took too long, and may still become durable.
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        # The coordinator has lost its log during a write.
        ErrorCode.NOT_COORDINATOR,
        # The reply or the connection was lost.
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
"""Errors after which a write may have been done, or may still be done."""

ELSEWHERE = ": its start offsets are set by `groupd groups reset`, or by kafka-share-groups"
"""Why the committed offsets of a share group cannot be moved."""

_AGAIN = ". Nothing has been written; ask for a preview again"

T = TypeVar("T")
Offset = TypeVar("Offset", Current, None, Current | None)

ShownOffsets = Mapping[TopicPartition, tuple[int | None, int | None]]
"""What a plan has shown and would write: partition -> (the committed offset, the offset that it
would get). None: no offset."""

Errors = Mapping[TopicPartition, str]
"""The names of the errors with which a coordinator has answered. A partition that was written is
absent."""


class MoveFailed(Exception):
    """Offsets could not be moved. `str()` is one line that says why. `remarks`: lines about single
    partitions."""

    def __init__(self, why: str, remarks: Iterable[str] = ()) -> None:
        super().__init__(why)
        self.remarks = remarks


class CannotMove(MoveFailed):
    """Nothing was written, or the line says what was written."""


class OutcomeNotKnown(MoveFailed):
    """The coordinator has not said whether it has written, and may still do so. The line says for
    how many partitions, and how many were written before."""


class GroupOffsets(Protocol):
    """The offsets of one group. Besides CannotMove, each implementation raises errors of its own
    for what it cannot read or ask; only `commit` and `delete` return them as errors of partitions.
    `part_bytes`: the most bytes of the records of one request. `writes_again`: a reset also writes
    an offset that is right already, because that has an effect."""

    group_id: str
    part_bytes: int
    writes_again: bool

    async def run(self, steps: Steps[T]) -> T:
        """Run `steps` and return their result."""
        ...

    async def state(self) -> str:
        """Returns the group's state as Kafka names it; "" if there is no such group."""
        ...

    async def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, Current]:
        """Returns the committed offsets of these partitions, and maybe of others. None: of all
        partitions of the group."""
        ...

    async def committed_at(self, at_ms: int) -> Sequence[CommittedOffset]:
        """Returns the offsets that were committed at that time (ms since 1970)."""
        ...

    async def topics(self, names: Iterable[str]) -> Mapping[str, TopicNow]:
        """Returns those of the named topics that exist."""
        ...

    async def ranges(self, partitions: Collection[TopicPartition]) -> Ranges:
        """Returns the first offset and the end of partitions. A partition that does not exist, or
        cannot be asked, is absent."""
        ...

    async def at_time(
        self, partitions: Collection[TopicPartition], at_ms: int
    ) -> Mapping[TopicPartition, int]:
        """Returns the offset of the first record of that time (ms since 1970) or later. A partition
        that has no such record, or cannot be asked, is absent."""
        ...

    async def commit(self, part: Mapping[TopicPartition, Current]) -> Errors:
        """Commit these offsets, with one request."""
        ...

    async def delete(self, part: Mapping[TopicPartition, None]) -> Errors:
        """Delete the offsets of these partitions, with one request."""
        ...


class PlannedMove(Struct, frozen=True):
    """A plan. `refusal`: why it cannot be carried out now; "" if it can."""

    steps: list[MoveStep]
    refusal: str


async def planned_reset(
    group: GroupOffsets,
    wanted: WantedReset,
    partitions: Iterable[TopicPartition] | None,
    others: Mapping[TopicPartition, int] | None = None,
) -> PlannedMove:
    """Returns the plan of a reset. `partitions` None: all partitions that have a committed offset.
    `others`: the offsets of the other group if the target is GROUP. The steps are in the order of
    topics and partitions; there are none if there is nothing to move."""
    now = await group.committed() if partitions is None else {}
    chosen = await group.run(_in_order(now if partitions is None else partitions))
    ranges = await group.ranges(chosen)
    found = others or {}
    if wanted.target is ResetTarget.TIME:
        found = await group.at_time(chosen, wanted.amount)
    if partitions is not None:
        now = await group.committed(chosen)
    plan = plan_reset(wanted, chosen, now, ranges, found, again=group.writes_again)
    return PlannedMove(await group.run(plan), await _refusal(group))


def _in_order(partitions: Iterable[TopicPartition]) -> Steps[list[TopicPartition]]:
    in_order = yield from sorted_in_steps(partitions)
    return (yield from distinct_in_steps(list(in_order)))


async def planned_restore(group: GroupOffsets, at_ms: int, *, delete_new: bool) -> PlannedMove:
    """Returns the plan of a restore of what was committed at `at_ms`. `delete_new`: delete offsets
    that did not exist then."""
    then = await group.committed_at(at_ms)
    topics = await group.topics({entry.topic for entry in then})
    ranges = await group.ranges([entry.place for entry in then])
    now = await group.committed()
    plan = plan_restore(then, now, topics, ranges, delete_new=delete_new)
    return PlannedMove(await group.run(plan), await _refusal(group))


async def write_plan(group: GroupOffsets, plan: PlannedMove) -> None:
    """Write a plan that was just made. Raises CannotMove, OutcomeNotKnown."""
    shown, wanted = await group.run(_of_plan(plan.steps))
    await _check(group, shown)
    await _write(group, wanted)


async def write_reset(group: GroupOffsets, shown: ShownOffsets) -> None:
    """Write what the plan of a reset has shown. Raises CannotMove, OutcomeNotKnown."""
    await _check(group, shown)
    offsets = (
        (partition, None if to is None else Current(to)) for partition, (_, to) in shown.items()
    )
    await _write(group, await group.run(dict_in_steps(offsets)))


async def write_restore(
    group: GroupOffsets, at_ms: int, shown: ShownOffsets, *, delete_new: bool
) -> None:
    """Write what the plan of a restore has shown. Raises CannotMove, OutcomeNotKnown."""
    plan = await planned_restore(group, at_ms, delete_new=delete_new)
    await _check(group, shown)
    planned, wanted = await group.run(_of_plan(plan.steps))
    if planned != shown:
        raise CannotMove(
            "the restore would not do what was shown, since the log or the topics have changed"
            f"{_AGAIN}"
        )
    await _write(group, wanted)


def _of_plan(
    steps: Iterable[MoveStep],
) -> Steps[tuple[ShownOffsets, dict[TopicPartition, Current | None]]]:
    writes = [step for step in steps if step.is_write]
    shown = yield from dict_in_steps((step.place, (step.before, step.after)) for step in writes)
    wanted = yield from dict_in_steps((step.place, step.wanted) for step in writes)
    return shown, wanted


async def _refusal(group: GroupOffsets) -> str:
    """Says why the offsets cannot be moved now; "" if they can."""
    state = await group.state()
    if state in _WITHOUT_MEMBERS:
        return ""
    return (
        f"group {group.group_id} is {state}: it has members, which would go on committing. "
        "Stop its consumers first"
    )


async def _check(group: GroupOffsets, shown: ShownOffsets) -> None:
    """Raises CannotMove if the group has members, or if an offset has moved since it was shown."""
    if refusal := await _refusal(group):
        raise CannotMove(refusal)
    now = await group.committed(shown.keys())
    moved = [
        partition
        for partition, (before, _) in shown.items()
        if _offset(now.get(partition)) != before
    ]
    if moved:
        topic, number = partition = moved[0]
        before, found = shown[partition][0], _offset(now.get(partition))
        raise CannotMove(
            f"{counted(len(moved), 'offset')} moved since that was shown, such as "
            f"{topic}-{number} from {_or_none(before)} to {_or_none(found)}{_AGAIN}"
        )


def _offset(committed: Current | None) -> int | None:
    return None if committed is None else committed.offset


def _or_none(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


async def _write(group: GroupOffsets, wanted: Mapping[TopicPartition, Current | None]) -> None:
    """Commit the offsets, delete those that are None, then read back what is committed. Raises
    CannotMove, OutcomeNotKnown."""
    commits = await group.run(
        dict_in_steps((partition, one) for partition, one in wanted.items() if one is not None)
    )
    deletes = await group.run(
        dict_in_steps((partition, None) for partition, one in wanted.items() if one is None)
    )
    written = await _write_parts(group, group.commit, commits, 0, len(wanted))
    await _write_parts(group, group.delete, deletes, written, len(wanted))
    now = await group.committed(wanted.keys())
    wrong = [partition for partition, one in wanted.items() if now.get(partition) != one]
    if wrong:
        (topic, number), count = wrong[0], len(wrong)
        raise CannotMove(
            f"all {counted(len(wanted), 'partition')} written, but somebody has moved {count} "
            f"of them since, such as {topic}-{number}",
            (_not_as_wanted(partition, wanted[partition]) for partition in wrong),
        )


async def _write_parts(
    group: GroupOffsets,
    write: Callable[[Mapping[TopicPartition, Offset]], Awaitable[Errors]],
    wanted: Mapping[TopicPartition, Offset],
    written: int,
    count: int,
) -> int:
    """Write `wanted` with several requests. `written` of all `count` partitions were written
    before. Returns how many are written now."""
    for part in parts_of(group.group_id, wanted, group.part_bytes):
        errors = await write(part)
        written += len(part) - len(errors)
        if errors:
            unsure = any(map(may_be_written, errors.values()))
            why = refused_text(errors, written, count)
            raise (OutcomeNotKnown if unsure else CannotMove)(why, _refused_each(errors))
    return written


def parts_of(
    group_id: str, wanted: Mapping[TopicPartition, Offset], most_bytes: int = PART_BYTES
) -> Iterator[dict[TopicPartition, Offset]]:
    """Yields `wanted` in parts, one for each request. A part has at most `PART_PARTITIONS`
    partitions, whose records have at most `most_bytes` bytes, but at least one partition."""
    part: dict[TopicPartition, Offset] = {}
    size = 0
    for partition, offset in wanted.items():
        own = _RECORD_BYTES + _length(group_id) + _length(partition[0])
        if offset is not None:
            own += _length(offset.metadata)
        if part and (len(part) == PART_PARTITIONS or size + own > most_bytes):
            yield part
            part, size = {}, 0
        part[partition] = offset
        size += own
    if part:
        yield part


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def may_be_written(error: str) -> bool:
    """Whether a partition may have been written although it was answered with this error. `error`:
    its name in Kafka."""
    return error in _OUTCOME_NOT_KNOWN


def refused_text(errors: Errors, written: int, count: int) -> str:
    """Returns one line that says what was done. The last part was answered with `errors`, at least
    one, and nothing was tried after it. `written` of `count` partitions were written."""
    unsure = [partition for partition, error in errors.items() if may_be_written(error)]
    refused = [partition for partition, error in errors.items() if not may_be_written(error)]
    left = count - written - len(errors)
    sentences = []
    for partitions, what in ((refused, "refused"), (unsure, "may have been written")):
        if partitions:
            topic, number = partition = partitions[0]
            sentences.append(
                f"{len(partitions)} of {counted(count, 'partition')} {what}, such as "
                f"{topic}-{number}: {errors[partition]}"
            )
    rest = []
    if written:
        rest.append(f"{written} {'has' if written == 1 else 'have'} been written")
    elif not unsure:
        rest.append("Nothing has been written")
    if left:
        rest.append(f"{left} not tried")
    if rest:
        sentences.append(", ".join(rest))
    return ". ".join(sentences)


def _refused_each(errors: Errors) -> Iterator[str]:
    for (topic, number), error in sorted(errors.items()):
        what = "may have been written" if may_be_written(error) else "refused"
        yield f"{topic}-{number} {what}: {error}"


def _not_as_wanted(partition: TopicPartition, wanted: Current | None) -> str:
    name = f"{partition[0]}-{partition[1]}"
    return f"{name} still has an offset" if wanted is None else f"{name} is not at {wanted.offset}"


def counted(count: int, noun: str) -> str:
    """For example `1 offset` or `2 offsets`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
