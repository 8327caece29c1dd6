"""Acquisition locks: which member holds which records, and until when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter

from msgspec import Struct

EMPTY_LOCKS = 64
"""Locks that hold nothing are taken out of the queue once there are more of them than this number
and half of the queue together."""

_UNTIL_MS = attrgetter("until_ms")


class RecordLock(Struct, eq=False, gc=False):
    """A member's lock on the offsets that one acquisition, or one renewal, gave to it. Their runs
    refer to it. `until_ms`: when it ends, in monotonic milliseconds. `first`: none of the offsets
    is lower. `held`: how many they are."""

    member_id: str
    until_ms: int
    first: int
    held: int = 0


class RecordLocks:
    """The locks of one share-partition. A lock that holds nothing is forgotten after a while, so
    they are not many more than the records in flight."""

    __slots__ = ("_ended", "_queue")

    def __init__(self) -> None:
        self._queue: list[RecordLock] = []
        """In the order in which they end."""
        self._ended = 0
        """How many locks have come to hold nothing since such locks were last taken out."""

    def __len__(self) -> int:
        """How many there are, with those that hold nothing."""
        return len(self._queue)

    def add(self, lock: RecordLock) -> None:
        insort(self._queue, lock, key=_UNTIL_MS)

    def add_again(self, lock: RecordLock) -> None:
        """Put a lock back whose records are held again, if `pop_over` has taken it out."""
        begin = bisect_left(self._queue, lock.until_ms, key=_UNTIL_MS)
        end = bisect_right(self._queue, lock.until_ms, lo=begin, key=_UNTIL_MS)
        if lock not in self._queue[begin:end]:
            self._queue.insert(end, lock)

    def let_go(self, lock: RecordLock, count: int) -> None:
        """The lock holds `count` offsets less."""
        lock.held -= count
        if lock.held:
            return
        self._ended += 1
        if self._ended > EMPTY_LOCKS + len(self._queue) // 2:
            self._queue = [queued for queued in self._queue if queued.held]
            self._ended = 0

    def of_member(self, member_id: str) -> list[RecordLock]:
        """The locks of a member, without those that `pop_over` has taken out."""
        return [lock for lock in self._queue if lock.member_id == member_id and lock.held]

    def next_ms(self) -> int | None:
        """When the first lock ends; None if there is none."""
        queue = self._queue
        if queue and not queue[0].held:
            over = 1
            while over < len(queue) and not queue[over].held:
                over += 1
            del queue[:over]
        return queue[0].until_ms if queue else None

    def pop_over(self, now_ms: int) -> list[RecordLock]:
        """Take out the locks that end until `now_ms`, and return those that hold something."""
        passed = bisect_right(self._queue, now_ms, key=_UNTIL_MS)
        over = [lock for lock in self._queue[:passed] if lock.held]
        del self._queue[:passed]
        return over
