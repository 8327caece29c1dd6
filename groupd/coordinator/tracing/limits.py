"""What bounds the traces that are being made: numbers, spans in memory, traces a second."""

from __future__ import annotations

from msgspec import Struct

_SECOND_NS = 1_000_000_000


class TraceLimits(Struct, frozen=True):
    """`rebalances`: most that are open at a time. `members`: most members of a rebalance that have
    an open span. `spans`: most children of a trace; the longest and those with an error stay.
    `spans_in_all`: most children, open or finished, of all open
    rebalances. `notes`: most events of a root span. `partitions`: most names in one attribute.
    `quiet_ns`: a rebalance of which nothing is heard for so long is given up."""

    rebalances: int = 500
    members: int = 500
    spans: int = 100
    spans_in_all: int = 10_000
    notes: int = 20
    partitions: int = 20
    quiet_ns: int = 3600 * _SECOND_NS


class SpanPlaces:
    """Counts the places that all open rebalances share."""

    def __init__(self, count: int) -> None:
        self._left = count

    def take(self) -> bool:
        """Whether there was a place."""
        if self._left == 0:
            return False
        self._left -= 1
        return True

    def give_back(self, count: int = 1) -> None:
        self._left += count


class TraceRate:
    """Lets `per_second` traces begin in any second, all at once or one by one."""

    def __init__(self, per_second: int) -> None:
        self._most = per_second * _SECOND_NS
        self._per_second = per_second
        self._saved = self._most
        self._at_ns = 0

    def admits(self, now_ns: int) -> bool:
        earned = max(0, now_ns - self._at_ns) * self._per_second
        self._saved = min(self._most, self._saved + earned)
        self._at_ns = now_ns
        if self._saved < _SECOND_NS:
            return False
        self._saved -= _SECOND_NS
        return True
