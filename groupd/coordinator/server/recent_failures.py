"""Counts failed attempts, so that nobody can guess fast."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

WINDOW_S = 10.0


class RecentFailures:
    """`limit`: failures of a key in `WINDOW_S`. They may come at once; then the next one is allowed
    after `WINDOW_S / limit`, and so on. 0: no limit. `most`: keys that are remembered; to make room
    for one more, the key whose last failure is the oldest is forgotten. `elapsed`: a clock in
    seconds."""

    def __init__(self, limit: int, most: int, elapsed: Callable[[], float]) -> None:
        self._each_s = WINDOW_S / limit if limit else 0.0
        self._most = most
        self._elapsed = elapsed
        self._forgotten: OrderedDict[Hashable, float] = OrderedDict()
        """When all failures of a key are forgotten."""

    def __len__(self) -> int:
        return len(self._forgotten)

    def add(self, key: Hashable) -> None:
        if not self._each_s:
            return
        at = max(self._forgotten.pop(key, 0.0), self._elapsed()) + self._each_s
        self._forgotten[key] = at
        if len(self._forgotten) > self._most:
            self._forgotten.popitem(last=False)

    def wait_s(self, key: Hashable) -> float:
        """Seconds until the key may fail once more; 0: now."""
        at = self._forgotten.get(key)
        if at is None:
            return 0.0
        left = at - self._elapsed() + self._each_s - WINDOW_S
        return left if left > 1e-6 else 0.0
