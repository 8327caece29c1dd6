"""What the lag knows of logs: where they end (`LogEnds`), how their ends have grown and so when
records were written (`Growth`), and the lag of a group over the last hour (`Trend`).

All times are monotonic ms, except where wall-clock ms are named. So ages do not change when the
wall clock is set.
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
"""The most points of one log. If there are more, every second point of the older half is dropped:
times long ago are less exact."""


class Bounds(Struct, frozen=True, gc=False):
    start: int
    end: int


Found = dict[str, dict[int, Bounds]]
"""Bounds by topic and partition."""


class LogEnds(Protocol):
    async def look(self, wanted: Wanted) -> Found:
        """Returns the bounds of the logs of these partitions. Partitions that do not exist are left
        out. Raises LogError."""
        ...

    async def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        """Returns the offset of the first record of `at_ms` (wall clock) or later; None if there is
        none. Raises LogError."""
        ...

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        """Returns the timestamp, in wall-clock ms, of the batch that holds `offset`, or of the next
        batch. None: there is no such batch, or it has no timestamp. Raises LogError."""
        ...


def _numbers() -> array[int]:
    return array("q")


class Growth(Struct, gc=False):
    """The end of one log over time. Two arrays have the points, oldest first: the time in ms, and
    the end of the log at that time.

    Each round adds the end of the log. The age of a record follows from the two rounds between
    which the end passed the record, so its error is less than the time between rounds. For records
    from before the first round the log is asked (`seed`).
    """

    times: array[int] = field(default_factory=_numbers)
    ends: array[int] = field(default_factory=_numbers)

    def add(self, now_ms: int, end: int) -> None:
        """Add the end of the log in a round. If the end goes back (the topic was created anew), the
        old points are dropped."""
        times, ends = self.times, self.ends
        if ends and end < ends[-1]:
            del times[:], ends[:]
        if len(ends) > 1 and ends[-2] == ends[-1] == end:
            times[-1] = now_ms  # a log that does not grow needs only two points
            return
        times.append(now_ms)
        ends.append(end)
        if len(ends) > POINTS_MAX:
            half = slice(1, POINTS_MAX // 2, 2)
            del times[half], ends[half]

    def knows(self, offset: int) -> bool:
        """Whether the time of the record at `offset` is known: it was written since the first
        round, or it was seeded."""
        return bool(self.ends) and offset >= self.ends[0]

    def seed(self, offset: int, written_ms: int) -> None:
        """Note that the record at `offset`, from before the first round, was written at
        `written_ms`. That is below 0 if it was written before the machine was started."""
        if self.ends and offset < self.ends[0]:
            self.times.insert(0, min(written_ms, self.times[0]))
            self.ends.insert(0, offset)

    def age_ms(self, offset: int, now_ms: int) -> int | None:
        """Returns how long ago the record at `offset` was written. If that was before the first
        round, the record is at least that old. None: there is no such record."""
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
    """The lag or a start offset over the last hour: the highest value of each minute. `values`: the
    minutes up to `last`, oldest first."""

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
        """Returns the last hour up to now, newest last. Each number is the highest value of
        `at_once` minutes; None: nothing is known of that time."""
        missing = min(max(0, now_ms // MINUTE_MS - self.last), MINUTES)
        values = [_NOT_KNOWN] * MINUTES + list(self.values) + [_NOT_KNOWN] * missing
        values = values[-MINUTES:]
        grouped = (max(values[at : at + at_once]) for at in range(0, MINUTES, at_once))
        return [None if value == _NOT_KNOWN else value for value in grouped]

    @property
    def flat(self) -> bool:
        """Whether there was no lag in the whole hour."""
        return max(self.values, default=0) <= 0
