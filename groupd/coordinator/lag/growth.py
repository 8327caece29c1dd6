"""What the lag knows of logs: where they end (`LogEnds`), how their ends have grown and so when
records were written (`Growth`), and the lag of a group over the last hour (`Trend`).

All times are monotonic ms: a step of the wall clock makes no record older or younger, and time goes
on when it is set back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct, field

Wanted = Mapping[str, Collection[int]]
"""Partitions by topic."""
MINUTES = 60
MINUTE_MS = 60_000
_NOT_KNOWN = -1
POINTS_MAX = 128
"""Most points of one log. When there are more, every second one of the older half goes: what is
long ago is told less exactly."""


class Bounds(Struct, frozen=True, gc=False):
    """Start and end offset of a log."""

    start: int
    end: int


Found = dict[str, dict[int, Bounds]]
"""Bounds by topic and partition."""


class LogEnds(Protocol):
    async def look(self, wanted: Wanted) -> Found:
        """The bounds of the logs of these partitions; those that do not exist are left out.
        Raises LogError."""
        ...

    async def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        """The offset of the first record of a time or later, in wall-clock ms; None: there is none.
        Raises LogError."""
        ...

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        """The timestamp, in wall-clock ms, of the batch that holds `offset`, or of the next one
        behind it. None: there is no such batch, or it does not tell. Raises LogError."""
        ...


def _numbers() -> array[int]:
    return array("q")


class Growth(Struct, gc=False):
    """The end of one log over time. Points stand in two arrays, oldest first: ms, and the end of
    the log at that time.

    Each round adds the end of the log. The age of a record is taken from the two rounds between
    which the end passed it, so it is right to within the time between rounds. What was written
    before the first round is known from a look into the log (`seed`)."""

    times: array[int] = field(default_factory=_numbers)
    ends: array[int] = field(default_factory=_numbers)

    def add(self, now_ms: int, end: int) -> None:
        """The end of the log in a round. An end that goes back (the topic was made anew) begins a
        new history."""
        times, ends = self.times, self.ends
        if ends and end < ends[-1]:
            del times[:], ends[:]
        if len(ends) > 1 and ends[-2] == ends[-1] == end:
            times[-1] = now_ms  # a log that stands still takes two points
            return
        times.append(now_ms)
        ends.append(end)
        if len(ends) > POINTS_MAX:
            half = slice(1, POINTS_MAX // 2, 2)
            del times[half], ends[half]

    def knows(self, offset: int) -> bool:
        """Whether the record at `offset` was written while rounds have looked."""
        return bool(self.ends) and offset >= self.ends[0]

    def seed(self, offset: int, written_ms: int) -> None:
        """The record at `offset`, from before the first round, was written at `written_ms`; that
        may be below 0, before the machine was started."""
        if self.ends and offset < self.ends[0]:
            self.times.insert(0, min(written_ms, self.times[0]))
            self.ends.insert(0, offset)

    def age_ms(self, offset: int, now_ms: int) -> int | None:
        """How long the record at `offset` has been there; at least so long if it was written before
        anybody looked. None: there is no such record."""
        ends, times = self.ends, self.times
        after = bisect_right(ends, offset)
        if after == len(ends):
            return None
        if after == 0:
            return max(0, now_ms - times[0])
        before = after - 1
        share = (offset - ends[before]) / (ends[after] - ends[before])
        return max(0, int(now_ms - times[before] - share * (times[after] - times[before])))


class Trend(Struct, gc=False):
    """Lag over the last hour: the most that was seen in each minute. `values`: those of the minutes
    up to `last`, oldest first, one each."""

    values: array[int] = field(default_factory=_numbers)
    last: int = 0

    def add(self, now_ms: int, value: int) -> None:
        minute = now_ms // MINUTE_MS
        values = self.values
        gap = min(minute - self.last, MINUTES) if values else 1
        if gap <= 0:
            values[-1] = max(values[-1], value)
            return
        values.extend([_NOT_KNOWN] * (gap - 1))
        values.append(value)
        self.last = minute
        del values[: max(0, len(values) - MINUTES)]

    def minutes(self, now_ms: int, at_once: int = 1) -> list[int | None]:
        """The last hour up to now, newest last; `at_once` minutes are one number, the most of
        them. None: nothing is known of that time."""
        missing = min(max(0, now_ms // MINUTE_MS - self.last), MINUTES)
        values = [_NOT_KNOWN] * MINUTES + list(self.values) + [_NOT_KNOWN] * missing
        values = values[-MINUTES:]
        grouped = (max(values[at : at + at_once]) for at in range(0, MINUTES, at_once))
        return [None if value == _NOT_KNOWN else value for value in grouped]

    @property
    def flat(self) -> bool:
        """Whether there was no lag in all of it."""
        return max(self.values, default=0) <= 0
