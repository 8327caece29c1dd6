"""Acquisition locks: which member holds which records, and until when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter

from msgspec import Struct

EMPTY_LOCKS = 64
"""How many locks that hold nothing any more may be in the queue, beside as many as hold
something."""

_UNTIL_MS = attrgetter("until_ms")


class RecordLock(Struct, eq=False, gc=False):
    """The lock on what one acquisition, or one renewal, gave to a member: the runs that name it.
    `first`: they begin at this offset or behind it. `held`: how many offsets they have. `until_ms`:
    monotonic milliseconds."""

    member_id: str
    until_ms: int
    first: int
    held: int = 0


class RecordLocks:
    """The locks of one share-partition, by time. There are never more than there are records in
    flight, because a lock that holds nothing is forgotten."""

    __slots__ = ("_ended", "_queue")

    def __init__(self) -> None:
        self._queue: list[RecordLock] = []
        """In the order of time. Locks that hold nothing stay in it for a while."""
        self._ended = 0
        """How many locks hold nothing any more since they were last taken out of the queue."""

    def __len__(self) -> int:
        """How many are kept, with those that hold nothing."""
        return len(self._queue)

    def add(self, lock: RecordLock) -> None:
        insort(self._queue, lock, key=_UNTIL_MS)

    def add_again(self, lock: RecordLock) -> None:
        """`pop_over` will return it when its time is over, also if it has done so before."""
        begin = bisect_left(self._queue, lock.until_ms, key=_UNTIL_MS)
        end = bisect_right(self._queue, lock.until_ms, lo=begin, key=_UNTIL_MS)
        if lock not in self._queue[begin:end]:
            self._queue.insert(end, lock)

    def let_go(self, lock: RecordLock, count: int) -> None:
        """`count` offsets less are held by this lock."""
        lock.held -= count
        if lock.held:
            return
        self._ended += 1
        if self._ended > EMPTY_LOCKS + len(self._queue) // 2:
            self._queue = [queued for queued in self._queue if queued.held]
            self._ended = 0

    def of_member(self, member_id: str) -> list[RecordLock]:
        """The locks of a member whose time is not over."""
        return [lock for lock in self._queue if lock.member_id == member_id and lock.held]

    def next_ms(self) -> int | None:
        """When the next lock is over; None if there is none."""
        queue = self._queue
        if queue and not queue[0].held:
            del queue[: next((at for at, lock in enumerate(queue) if lock.held), len(queue))]
        return queue[0].until_ms if queue else None

    def pop_over(self, now_ms: int) -> list[RecordLock]:
        """The locks whose time is over."""
        passed = bisect_right(self._queue, now_ms, key=_UNTIL_MS)
        over = [lock for lock in self._queue[:passed] if lock.held]
        del self._queue[:passed]
        return over
