"""A table of keys that were used lately. Clients choose the keys, so the table has limits."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import Generic, TypeVar

NAME_MAX = 256
"""A name with at most this many characters is kept as it is; of a longer one its hash is kept."""

T = TypeVar("T")


def short(name: str) -> str:
    """The name, or its hash if it is long. Clients choose their names, which may be 32 KB long, and
    thousands of names are kept."""
    return name if len(name) <= NAME_MAX else sha256(name.encode()).hexdigest()


class Recent(Generic[T]):
    """Values by key. `make()` makes the value of a new key. A key that is not used for `idle_ms` is
    dropped. If there are more than `most` keys, the least recently used one is dropped."""

    def __init__(self, make: Callable[[], T], idle_ms: int, most: int) -> None:
        self._make = make
        self._idle_ms = idle_ms
        self._most = most
        self._values: dict[Hashable, tuple[int, T]] = {}
        """The time of the last use and the value, by key, in the order of use."""

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def of(self, key: Hashable, now_ms: int) -> T:
        known = self._values.pop(key, None)
        value = self._make() if known is None else known[1]
        self._values[key] = (now_ms, value)
        self._drop(now_ms)
        return value

    def _drop(self, now_ms: int) -> None:
        """Drops up to two old keys. A call adds at most one key, so old keys go faster than new
        ones come."""
        for _ in range(2):
            oldest = next(iter(self._values))
            at_ms, _value = self._values[oldest]
            if at_ms + self._idle_ms > now_ms and len(self._values) <= self._most:
                return
            del self._values[oldest]
