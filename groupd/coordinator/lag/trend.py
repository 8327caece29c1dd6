"""Lag over the last hour, a number for each minute. Times are monotonic ms: when the wall clock is
set back, time goes on here."""

from __future__ import annotations

from array import array

from msgspec import Struct, field

MINUTES = 60
MINUTE_MS = 60_000
_NOT_KNOWN = -1


def _numbers() -> array[int]:
    return array("q")


class Trend(Struct, gc=False):
    """The most that was seen in each minute. `values`: those of the minutes up to `last`, oldest
    first, one each."""

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
