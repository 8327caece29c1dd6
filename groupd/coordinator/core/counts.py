"""Counters by key, for what a group counts as its members change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")


def increment(counts: dict[K, int], key: K) -> bool:
    """Count one more for `key`. True if the key is new."""
    before = counts.get(key, 0)
    counts[key] = before + 1
    return before == 0


def decrement(counts: dict[K, int], key: K) -> bool:
    """Count one less for `key`. True if the key is gone."""
    left = counts[key] - 1
    if left:
        counts[key] = left
        return False
    del counts[key]
    return True


def move(counts: dict[K, int], old: K | None, new: K | None) -> None:
    """Count one less for `old` and one more for `new`; None is not counted."""
    if old == new:
        return
    if old is not None:
        decrement(counts, old)
    if new is not None:
        increment(counts, new)


def move_all(counts: dict[K, int], old: Iterable[K], new: Iterable[K]) -> bool:
    """Count one less for each key that only `old` has and one more for each key that only `new`
    has; True if the set of counted keys changed."""
    before, after = set(old), set(new)
    changed = False
    for key in before - after:
        changed |= decrement(counts, key)
    for key in after - before:
        changed |= increment(counts, key)
    return changed
