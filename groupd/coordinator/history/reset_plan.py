"""The plan of a reset: where a group's committed offsets go, and how many records its consumers
will read again or skip.

A wanted offset that the partition does not have is replaced by the nearest one that it has, since
consumers would start elsewhere otherwise; a warning says so. `records` counts offsets: compacted
records and the markers of transactions are among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from groupd.coordinator.history.restore import Place


class ResetTarget(Enum):
    """Where to. `TIME`: the first record of that time or later, the end if there is none."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    OFFSET = "offset"
    SHIFT = "shift"


class WantedReset(Struct, frozen=True):
    """`amount`: the offset, the number of offsets to move by, or milliseconds since 1970."""

    target: ResetTarget
    amount: int = 0


class ResetAction(Enum):
    """What consumers will do. `FIRST`: nothing was committed before. `LEAVE`: nothing is written;
    the warning says why."""

    REWIND = "rewind"
    FORWARD = "forward"
    FIRST = "first"
    KEEP = "keep"
    LEAVE = "leave"


class ResetStep(Struct, frozen=True):
    """One partition. `before` None: nothing is committed; `after` None: nothing will be. `records`:
    how many are read again (REWIND) or skipped (FORWARD); None for FIRST and LEAVE."""

    topic: str
    partition: int
    before: int | None
    after: int | None
    action: ResetAction
    records: int | None
    warning: str = ""

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def is_write(self) -> bool:
        return self.action not in (ResetAction.KEEP, ResetAction.LEAVE)

    def row(self) -> dict[str, Any]:
        """The step for programs."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.before,
            "to": self.after,
            "action": self.action.value,
            "records": self.records,
            "warning": self.warning,
        }


def plan_reset(
    wanted: WantedReset,
    places: Iterable[Place],
    committed: Mapping[Place, int],
    bounds: Mapping[Place, tuple[int, int]],
    at_time: Mapping[Place, int],
) -> list[ResetStep]:
    """The steps by topic and partition. `bounds`: the first offset and the end of each partition.
    `at_time`: for TIME, the first offset of that time or later; a partition that has none is
    absent."""
    return [
        _step(wanted, place, committed.get(place), bounds.get(place), at_time.get(place))
        for place in sorted(set(places))
    ]


def _step(
    wanted: WantedReset,
    place: Place,
    before: int | None,
    bounds: tuple[int, int] | None,
    at_time: int | None,
) -> ResetStep:
    if bounds is None:
        refusal = "there is no such partition, or it could not be asked"
        return ResetStep(*place, before, before, ResetAction.LEAVE, None, refusal)
    start, end = bounds
    if wanted.target is ResetTarget.SHIFT and before is None:
        refusal = "nothing is committed that could be moved"
        return ResetStep(*place, None, None, ResetAction.LEAVE, None, refusal)
    exact = {
        ResetTarget.EARLIEST: start,
        ResetTarget.LATEST: end,
        ResetTarget.TIME: end if at_time is None else at_time,
        ResetTarget.OFFSET: wanted.amount,
        ResetTarget.SHIFT: (before or 0) + wanted.amount,
    }[wanted.target]
    after = min(max(exact, start), end)
    action, records = effect(before, after, bounds)
    return ResetStep(*place, before, after, action, records, _warning(exact, start, end))


def effect(
    before: int | None, after: int, bounds: tuple[int, int]
) -> tuple[ResetAction, int | None]:
    """What consumers will do, and how many records they read again or skip: see `ResetStep`. Only
    records that the partition has are counted; `bounds`: its first offset and its end."""
    start, end = bounds
    if before is None:
        return ResetAction.FIRST, None
    if after == before:
        return ResetAction.KEEP, 0
    if after < before:
        return ResetAction.REWIND, min(before, end) - after
    # Consumers cannot read offsets outside of the partition anyway.
    return ResetAction.FORWARD, after - max(before, start)


def _warning(exact: int, start: int, end: int) -> str:
    if exact < start:
        return f"{exact} is below the start of the partition: {start} instead"
    if exact > end:
        return f"{exact} is beyond the end of the partition: {end} instead"
    return ""
