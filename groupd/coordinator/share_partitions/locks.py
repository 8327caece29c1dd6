"""Acquisition locks: which member holds which records, and until when."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import attrgetter

EMPTY_LOCKS = 64
"""How many locks that hold nothing any more may be in the queue, beside as many as hold
something."""

_UNTIL_MS = attrgetter("until_ms")


class RecordLock:
    """The lock on what one acquisition, or one renewal, gave to a member. `ranges`: first and last
    offsets as they were then; the runs of these offsets that still name this lock are held by it.
    `held`: how many offsets these are. `until_ms`: monotonic milliseconds."""

    __slots__ = ("held", "member_id", "queued", "ranges", "until_ms")

    def __init__(
        self, member_id: str, until_ms: int, ranges: Sequence[tuple[int, int]], held: int
    ) -> None:
        self.member_id = member_id
        self.until_ms = until_ms
        self.ranges = ranges
        self.held = held
        self.queued = False


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, which are in order, with neighbours made one."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and found[-1][1] + 1 == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


class RecordLocks:
    """The locks of one share-partition, by member and by time. There are never more than there are
    records in flight, because a lock that holds nothing is forgotten."""

    __slots__ = ("_empty", "_of_member", "_queue")

    def __init__(self) -> None:
        self._of_member: dict[str, dict[RecordLock, None]] = {}
        self._queue: list[RecordLock] = []
        """In the order of time. Locks that hold nothing stay in it for a while."""
        self._empty = 0

    def __len__(self) -> int:
        """How many are kept, with those that hold nothing."""
        return len(self._queue)

    def add(self, lock: RecordLock) -> None:
        self._of_member.setdefault(lock.member_id, {})[lock] = None
        self.queue(lock)

    def queue(self, lock: RecordLock) -> None:
        """`pop_over` will return it when its time is over, also if it has done so before."""
        if not lock.queued:
            lock.queued = True
            insort(self._queue, lock, key=_UNTIL_MS)

    def let_go(self, lock: RecordLock, count: int) -> None:
        """`count` offsets less are held by this lock."""
        lock.held -= count
        if lock.held:
            return
        locks = self._of_member[lock.member_id]
        del locks[lock]
        if not locks:
            del self._of_member[lock.member_id]
        if lock.queued:
            self._empty += 1
            if self._empty > EMPTY_LOCKS + len(self._queue) // 2:
                self._queue = [queued for queued in self._queue if queued.held]
                self._empty = 0

    def of_member(self, member_id: str) -> list[RecordLock]:
        return list(self._of_member.get(member_id, ()))

    def next_ms(self) -> int | None:
        """When the next lock is over; None if there is none."""
        passed = next((at for at, lock in enumerate(self._queue) if lock.held), len(self._queue))
        if passed:
            del self._queue[:passed]
            self._empty -= passed
        return self._queue[0].until_ms if self._queue else None

    def pop_over(self, now_ms: int) -> list[RecordLock]:
        """The locks whose time is over."""
        passed = bisect_right(self._queue, now_ms, key=_UNTIL_MS)
        over = [lock for lock in self._queue[:passed] if lock.held]
        for lock in over:
            lock.queued = False
        del self._queue[:passed]
        self._empty -= passed - len(over)
        return over
