"""Lag over the last hour, a number for each minute."""

from __future__ import annotations

from array import array

MINUTES = 60
MINUTE_MS = 60_000
_NOT_KNOWN = -1


class Trend:
    """The most that was seen in each minute."""

    __slots__ = ("_last", "_values")

    def __init__(self) -> None:
        self._values = array("q")
        """Those of the minutes up to `_last`, oldest first, one each."""
        self._last = 0

    def add(self, now_ms: int, value: int) -> None:
        minute = now_ms // MINUTE_MS
        values = self._values
        gap = min(minute - self._last, MINUTES) if values else 1
        if gap <= 0:
            values[-1] = max(values[-1], value)
            return
        values.extend([_NOT_KNOWN] * (gap - 1))
        values.append(value)
        self._last = minute
        del values[: max(0, len(values) - MINUTES)]

    def minutes(self, now_ms: int, at_once: int = 1) -> list[int | None]:
        """The last hour up to now, newest last; `at_once` minutes are one number, the most of
        them. None: nothing is known of that time."""
        missing = now_ms // MINUTE_MS - self._last
        values = [_NOT_KNOWN] * MINUTES + list(self._values) + [_NOT_KNOWN] * max(0, missing)
        values = values[-MINUTES:]
        grouped = (max(values[at : at + at_once]) for at in range(0, MINUTES, at_once))
        return [None if value == _NOT_KNOWN else value for value in grouped]

    @property
    def flat(self) -> bool:
        """Whether there was no lag in all of it."""
        return max(self._values, default=0) <= 0
