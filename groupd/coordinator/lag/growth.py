"""When the records of a log were written, as far as its end was seen to grow: lag in seconds.

Each round adds the end of the log. The age of a record is taken from the two rounds between which
the end passed it, so it is right to within the time between rounds. What was written before the
first round is known from a look into the log (`seed`). All times are monotonic ms: a step of the
wall clock makes no record older or younger.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from msgspec import Struct, field

POINTS_MAX = 128
"""Most points of one log. When there are more, every second one of the older half goes: what is
long ago is told less exactly."""


def _numbers() -> array[int]:
    return array("q")


class Growth(Struct, gc=False):
    """The end of one log over time. Points stand in two arrays, oldest first: ms, and the end of
    the log at that time."""

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
