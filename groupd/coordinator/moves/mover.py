"""Resets and restores of a group's offsets, for an operator at the console: first the plan of what
would be done, then doing what the plan has shown.

The plans are those of `groupd groups reset` and `restore`. What is done is what the operator has
seen: it is refused if an offset has moved since then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.slices import (
    LISTED_MAX,
    SLICE_ITEMS,
    Steps,
    Work,
    dict_in_steps,
    sorted_in_steps,
    spans,
)
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.history.reset_plan import (
    ResetAction,
    ResetTarget,
    WantedReset,
    effect,
    plan_reset,
)
from groupd.coordinator.history.restore import (
    Action,
    Bounds,
    Current,
    Place,
    RestoreStep,
    TopicNow,
    outside,
    plan_steps,
    writes,
)
from groupd.coordinator.history.stream import UnreadableLog
from groupd.coordinator.lag.growth import LogEnds
from groupd.coordinator.moves.parts import counted, members_refusal
from groupd.coordinator.moves.past import committed_at, last_moves
from groupd.coordinator.moves.writer import CannotMove, OffsetWriter, by_topic, committed_of
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.coordinator.security.audit import Audit
from groupd.storage.log import LogCorrupt, LogError, PartitionLogs

Shown = Mapping[Place, tuple[int | None, int | None]]
"""What a plan has shown: by partition the committed offset and the one that it would get; None: no
offset."""

PARTITIONS_MAX = LISTED_MAX
"""Partitions of one plan."""

TIMES_MAX = 1000
"""Partitions whose offset at a time is looked up in one reset."""


class CannotRead(Exception):
    """The store cannot be read now; `str()` is one line that says why."""


class PlannedMove(Struct, frozen=True):
    """`rows`: topic, partition, from, to, action, records (negative: read again; None: not known),
    warning, writes (an offset is written or deleted), and starts_anew: consumers start where their
    `auto.offset.reset` says. `refusal`: why it cannot be done now; "": it can."""

    rows: list[dict[str, Any]]
    refusal: str = ""


class OffsetMover:
    """Moves offsets of groups that this process serves. All methods raise CannotRead, and
    UnreadableLog where the store has something damaged."""

    def __init__(
        self,
        broker: Broker,
        logs: PartitionLogs,
        ends: LogEnds,
        work: LongWork,
        audit: Audit,
    ) -> None:
        self._broker = broker
        self._logs = logs
        self._ends = ends
        self._work = work
        self._writer = OffsetWriter(broker, work, audit)

    async def plan_reset(
        self,
        shard: ShardRuntime,
        group_id: str,
        wanted: WantedReset,
        partitions: Mapping[str, Sequence[int]] | None,
    ) -> PlannedMove:
        """`partitions` by topic; None: all that have a committed offset. Raises CannotMove."""
        if partitions is not None:
            _check_count(sum(map(len, partitions.values())))
        committed = await self._work.run(_all_committed(shard, group_id))
        if partitions is None:
            _check_count(len(committed))
        places = committed if partitions is None else _places(partitions)
        chosen = list(dict.fromkeys(await self._work.run(sorted_in_steps(places))))
        if not chosen:
            raise CannotMove(f"group {group_id} has nothing committed: choose partitions")
        with _reading():
            bounds = await self._bounds(chosen)
            at_time = {}
            if wanted.target is ResetTarget.TIME:
                at_time = await self._at_time(chosen, wanted.amount)
        rows = await self._work.run(_reset_rows(wanted, chosen, committed, bounds, at_time))
        return PlannedMove(rows, _refusal(shard, group_id))

    async def reset(
        self, shard: ShardRuntime, group_id: str, shown: Shown, by: RequestContext
    ) -> None:
        """Write what the plan of a reset has shown, in the name of `by`. Raises CannotMove,
        OutcomeNotKnown."""
        wanted = await self._work.run(
            dict_in_steps(
                (place, None if to is None else Current(to)) for place, (_, to) in shown.items()
            )
        )
        await self._write(shard, group_id, shown, wanted, by)

    async def plan_restore(
        self, shard: ShardRuntime, group_id: str, at_ms: int, *, delete_new: bool
    ) -> PlannedMove:
        """Back to what was committed at `at_ms`. `delete_new`: offsets that did not exist then are
        deleted. Raises CannotMove, BeforeHistory."""
        steps, bounds = await self._restore(shard, group_id, at_ms, delete_new=delete_new)
        rows = await self._work.run(_restore_rows(steps, bounds))
        return PlannedMove(rows, _refusal(shard, group_id))

    async def restore(
        self,
        shard: ShardRuntime,
        group_id: str,
        at_ms: int,
        shown: Shown,
        by: RequestContext,
        *,
        delete_new: bool,
    ) -> None:
        """Write what the plan of a restore has shown, in the name of `by`. Raises CannotMove,
        OutcomeNotKnown, BeforeHistory."""
        steps, _ = await self._restore(shard, group_id, at_ms, delete_new=delete_new)
        await self._check_unmoved(shard, group_id, shown)
        planned = writes(steps)
        rows = await self._work.run(
            dict_in_steps((step.place, (step.before, step.after)) for step in planned)
        )
        if rows != shown:
            raise CannotMove(
                "the restore would not do what was shown, since the log or the topics have changed"
                f"{_AGAIN}"
            )
        wanted = await self._work.run(dict_in_steps((step.place, step.wanted) for step in planned))
        await self._write(shard, group_id, shown, wanted, by)

    async def last_moves(self, shard: ShardRuntime, group_id: str) -> dict[str, Any]:
        """See `past.last_moves`."""
        with _reading():
            return await last_moves(self._logs, self._work, shard, group_id)

    async def _restore(
        self, shard: ShardRuntime, group_id: str, at_ms: int, *, delete_new: bool
    ) -> tuple[list[RestoreStep], Bounds]:
        with _reading():
            then = await committed_at(self._logs, self._work, shard, group_id, at_ms)
            _check_count(len(then))
            bounds = await self._bounds([entry.place for entry in then])
        image = self._broker.image
        topics = {
            name: TopicNow(known.topic_id, known.partitions)
            for name in {entry.topic for entry in then}
            if (known := image.by_name.get(name)) is not None
        }
        now = await self._work.run(_all_committed(shard, group_id))
        _check_count(len(now))
        plan = plan_steps(then, now, topics, bounds, delete_new=delete_new)
        return await self._work.run(plan), bounds

    async def _bounds(self, places: Iterable[Place]) -> Bounds:
        """Raises LogError."""
        found = await self._ends.look(by_topic(places))
        return await self._work.run(
            dict_in_steps(
                ((topic, number), (one.start, one.end))
                for topic, numbers in found.items()
                for number, one in numbers.items()
            )
        )

    async def _at_time(self, places: Sequence[Place], at_ms: int) -> dict[Place, int]:
        """Raises CannotMove, UnreadableLog, LogError."""
        _check_count(len(places), TIMES_MAX)
        found = {}
        for topic, number in places:
            try:
                offset = await self._ends.first_at(topic, number, at_ms)
            except LogCorrupt as error:
                why = f"the log of {topic}-{number} is damaged: {error}"
                raise UnreadableLog(why) from error
            if offset is not None:
                found[topic, number] = offset
        return found

    async def _write(
        self,
        shard: ShardRuntime,
        group_id: str,
        shown: Shown,
        wanted: Mapping[Place, Current | None],
        by: RequestContext,
    ) -> None:
        _check_count(len(shown))
        refusal = _refusal(shard, group_id)
        if refusal:
            raise CannotMove(refusal)
        await self._check_unmoved(shard, group_id, shown)
        await self._writer.write(by, shard, group_id, wanted)

    async def _check_unmoved(self, shard: ShardRuntime, group_id: str, shown: Shown) -> None:
        """Raises CannotMove if an offset is not any more where it was when that was shown."""
        now = await self._work.run(committed_of(shard, group_id, shown))
        moved = [place for place, (before, _) in shown.items() if _offset(now[place]) != before]
        if moved:
            topic, number = place = moved[0]
            raise CannotMove(
                f"{counted(len(moved), 'offset')} moved since that was shown, such as "
                f"{topic}-{number} from {_told(shown[place][0])} to {_told(_offset(now[place]))}"
                f"{_AGAIN}"
            )


_AGAIN = ". Nothing has been written; ask for a preview again"


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except LogCorrupt as error:
        raise UnreadableLog(f"the log is damaged: {error}") from error
    except LogError as error:
        why = str(error) or type(error).__name__
        raise CannotRead(f"the store cannot be read now: {why}") from error


def _places(partitions: Mapping[str, Sequence[int]]) -> Iterator[Place]:
    return ((topic, number) for topic, some in partitions.items() for number in some)


def _check_count(count: int, most: int = PARTITIONS_MAX) -> None:
    if count > most:
        raise CannotMove(
            f"{count} partitions are too many for one order, which may have {most}: "
            "choose some of them, or use `groupd groups reset` or `restore`"
        )


def _refusal(shard: ShardRuntime, group_id: str) -> str:
    group = shard.shard.state.groups.get(group_id)
    return "" if group is None else members_refusal(group_id, group.state_name())


def _all_committed(shard: ShardRuntime, group_id: str) -> Steps[dict[Place, Current]]:
    work, found = Work(), {}
    for topic, partitions in list(shard.shard.offsets.store.topics(group_id).items()):
        for number, stored in list(partitions.items()):
            if work.enough():
                yield
            found[topic, number] = Current(stored.offset, stored.leader_epoch, stored.metadata)
    return found


def _offset(committed: Current | None) -> int | None:
    return None if committed is None else committed.offset


def _told(offset: int | None) -> str:
    return "none" if offset is None else str(offset)


def _reset_rows(
    wanted: WantedReset,
    places: Sequence[Place],
    committed: Mapping[Place, Current],
    bounds: Bounds,
    at_time: Mapping[Place, int],
) -> Steps[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for span in spans(len(places), SLICE_ITEMS):
        if rows:
            yield
        some = places[span]
        before = {place: committed[place].offset for place in some if place in committed}
        for step in plan_reset(wanted, some, before, bounds, at_time):
            records = _records(step.before, step.after, bounds.get(step.place))
            own = {"records": records, "writes": step.is_write, "starts_anew": False}
            rows.append({**step.row(), **own})
    return rows


def _restore_rows(steps: Sequence[RestoreStep], bounds: Bounds) -> Steps[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for span in spans(len(steps), SLICE_ITEMS):
        if rows:
            yield
        rows += [_restore_row(step, bounds.get(step.place)) for step in steps[span]]
    return rows


def _restore_row(step: RestoreStep, bounds: tuple[int, int] | None) -> dict[str, Any]:
    # Where there is no offset, and where the partition does not have it.
    lost = step.action is Action.COMMIT and outside(step.after, bounds)
    starts_anew = step.action is Action.DELETE or lost
    return {
        "topic": step.topic,
        "partition": step.partition,
        "from": step.before,
        "to": step.after,
        "action": step.action.value,
        "records": None if starts_anew else _records(step.before, step.after, bounds),
        "warning": step.warning,
        "writes": step.is_write,
        "starts_anew": starts_anew,
    }


def _records(before: int | None, after: int | None, bounds: tuple[int, int] | None) -> int | None:
    """How many records are skipped, or, negative, read again; None: that is not known."""
    if before == after:
        return None if before is None else 0
    if after is None or bounds is None:
        return None
    action, records = effect(before, after, bounds)
    return -records if records is not None and action is ResetAction.REWIND else records
