"""Deadlines of a shard: a lazy heap.

The heap holds a lower bound for each key; moving a deadline later (every heartbeat does) is one
dict write. `next_deadline` may therefore be early: a popped key whose true deadline lies ahead
goes back with it. Equal deadlines fire in the order of their keys.
"""

from __future__ import annotations

from heapq import heappop, heappush

DeadlineKey = tuple[str, str, str]
"""(kind, group id, member id or "")."""


class Deadlines:
    """Keyed deadlines in monotonic milliseconds; setting a key again replaces it."""

    __slots__ = ("_due", "_heap", "_queued")

    def __init__(self) -> None:
        self._due: dict[DeadlineKey, int] = {}
        self._queued: dict[DeadlineKey, int] = {}
        self._heap: list[tuple[int, DeadlineKey]] = []

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: DeadlineKey) -> bool:
        return key in self._due

    def set(self, key: DeadlineKey, at_ms: int) -> None:
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or queued > at_ms:
            self._queued[key] = at_ms
            heappush(self._heap, (at_ms, key))

    def cancel(self, key: DeadlineKey) -> bool:
        """True if it was set. Its heap entry goes when it comes up."""
        return self._due.pop(key, None) is not None

    def due(self, key: DeadlineKey) -> int | None:
        return self._due.get(key)

    def cancel_group(self, group_id: str) -> None:
        for key in [key for key in self._due if key[1] == group_id]:
            del self._due[key]

    def items(self) -> list[tuple[DeadlineKey, int]]:
        """All deadlines, sorted by key; for display and tests."""
        return sorted(self._due.items())

    def of_group(self, group_id: str) -> list[tuple[DeadlineKey, int]]:
        """Those of one group, sorted by key."""
        return sorted(entry for entry in self._due.items() if entry[0][1] == group_id)

    def next_deadline(self) -> int | None:
        """A time not after the earliest deadline; None when there is none."""
        while self._heap:
            at_ms, key = self._heap[0]
            due = self._due.get(key)
            if due is not None and self._queued.get(key) == at_ms:
                if due <= at_ms:
                    return at_ms
                self._requeue(key, due)
            else:
                self._drop()
        return None

    def pop_due(self, now_ms: int) -> list[DeadlineKey]:
        """Remove and return the keys whose deadline is at or before `now_ms`, earliest first."""
        fired: list[DeadlineKey] = []
        while (at_ms := self.next_deadline()) is not None and at_ms <= now_ms:
            _, key = heappop(self._heap)
            del self._queued[key], self._due[key]
            fired.append(key)
        return fired

    def _requeue(self, key: DeadlineKey, due: int) -> None:
        heappop(self._heap)
        self._queued[key] = due
        heappush(self._heap, (due, key))

    def _drop(self) -> None:
        at_ms, key = heappop(self._heap)
        if self._queued.get(key) == at_ms:
            del self._queued[key]
