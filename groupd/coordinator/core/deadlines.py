"""Deadlines of a shard, kept in a lazy heap.

The heap holds a lower bound for each key, so moving a deadline later (every heartbeat does) is one
assignment. A key that comes to the top before its deadline is put back with its true deadline.
Equal deadlines fire in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from heapq import heappop, heappush, heapreplace
from typing import Any

from groupd.coordinator.core.slices import LISTED_MAX, smallest

DeadlineKey = tuple[str, str, *tuple[Any, ...]]
"""(kind, group id, and whose deadline it is in the group). The rest is a member id, or "" for the
group as a whole, or other values that can be ordered, such as a topic id and a partition. All keys
of one kind have the same shape, because keys are compared with each other."""

OFF = -(1 << 62)
"""The time of a deadline that is not set."""


class Deadline:
    """The deadline of one key. A caller that keeps the object may assign a later `at_ms`, unless
    `at_ms` is OFF: then the deadline was cancelled or has fired, and this object may not belong to
    `Deadlines` any more."""

    __slots__ = ("at_ms", "queued_ms")

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms
        self.queued_ms = at_ms
        """The time of the key's valid entry in the heap; never after `at_ms`."""


class Deadlines:
    """Deadlines by key, in monotonic milliseconds; setting a key again replaces its deadline."""

    __slots__ = ("_cancelled", "_heap", "_known")

    def __init__(self) -> None:
        self._known: dict[DeadlineKey, Deadline] = {}
        self._cancelled = 0
        self._heap: list[tuple[int, DeadlineKey]] = []

    def __len__(self) -> int:
        return len(self._known) - self._cancelled

    def __contains__(self, key: DeadlineKey) -> bool:
        return self.due(key) is not None

    def set(self, key: DeadlineKey, at_ms: int) -> None:
        deadline = self._known.get(key)
        if deadline is None:
            self._known[key] = Deadline(at_ms)
            heappush(self._heap, (at_ms, key))
            return
        if deadline.at_ms == OFF:
            self._cancelled -= 1
        deadline.at_ms = at_ms
        if deadline.queued_ms > at_ms:
            deadline.queued_ms = at_ms
            heappush(self._heap, (at_ms, key))

    def retry(self, key: DeadlineKey, at_ms: int) -> None:
        """`key` was popped, but could not be handled: set its deadline to `at_ms`, unless it is set
        again already."""
        if key not in self:
            self.set(key, at_ms)

    def cancel(self, key: DeadlineKey) -> bool:
        """Cancel a deadline; returns whether it was set. Its heap entry stays until it comes to the
        top."""
        deadline = self._known.get(key)
        if deadline is None or deadline.at_ms == OFF:
            return False
        deadline.at_ms = OFF
        self._cancelled += 1
        return True

    def get(self, key: DeadlineKey) -> Deadline | None:
        """The deadline itself, which a caller keeps to move it without a look-up; None if it is not
        set."""
        deadline = self._known.get(key)
        return None if deadline is None or deadline.at_ms == OFF else deadline

    def due(self, key: DeadlineKey) -> int | None:
        deadline = self.get(key)
        return None if deadline is None else deadline.at_ms

    def cancel_group(self, group_id: str, kept_kinds: Container[str] = ()) -> None:
        for key in self._known:
            if key[1] == group_id and key[0] not in kept_kinds:
                self.cancel(key)

    def items(self) -> list[tuple[DeadlineKey, int]]:
        """All deadlines, sorted by key; for display and tests."""
        return sorted((key, d.at_ms) for key, d in self._known.items() if d.at_ms != OFF)

    def of_group(self, group_id: str) -> Iterator[tuple[DeadlineKey, int] | None]:
        """The deadlines of one group, sorted by key: the first `LISTED_MAX`, and one more if there
        are more. Each time is looked up when it is yielded. None is not an item but a point where
        other work may run."""
        keys = yield from smallest(
            list(self._known), LISTED_MAX + 1, lambda key: key[1] == group_id
        )
        for key in keys:
            at_ms = self.due(key)
            if at_ms is not None:
                yield key, at_ms

    def next_deadline(self) -> int | None:
        """The time of the earliest deadline; None if there is none."""
        while self._heap:
            queued_ms, key = self._heap[0]
            deadline = self._known.get(key)
            if deadline is None or deadline.queued_ms != queued_ms:
                heappop(self._heap)  # the deadline was set to an earlier time
            elif deadline.at_ms == OFF:
                self._forget(key)
            elif deadline.at_ms <= queued_ms:
                return queued_ms
            else:
                self._requeue(key, deadline)
        return None

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]:
        """Remove and return the keys whose deadline is at or before `now_ms`, earliest first: all
        of them, or the first `at_most`."""
        fired: list[DeadlineKey] = []
        while len(fired) != at_most and (at_ms := self.next_deadline()) is not None:
            if at_ms > now_ms:
                break
            key = self._heap[0][1]
            self.cancel(key)
            self._forget(key)
            fired.append(key)
        return fired

    def _requeue(self, key: DeadlineKey, deadline: Deadline) -> None:
        deadline.queued_ms = deadline.at_ms
        heapreplace(self._heap, (deadline.at_ms, key))

    def _forget(self, key: DeadlineKey) -> None:
        """Remove `key`, which is OFF and at the top of the heap."""
        heappop(self._heap)
        del self._known[key]
        self._cancelled -= 1
