"""Coroutines that work on many items stop after some of them, for their turn in `LongWork`.
Generators do the same with `slices.Work`, and what writes replies with `Writer.due`.

A handler whose request may name thousands of partitions counts them:

    pace = Pace(work)
    for partition in partitions:
        if pace.due():
            await pace.turn()
        ...

Items are counted, and time is not measured, so a recording stops at the same places.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, TypeVar

from groupd.coordinator.core.slices import sorted_in_steps
from groupd.coordinator.runtime.long_work import LongWork

STEP = 100
"""Items of ordinary size, such as a partition that is looked up, take well below a millisecond."""

Key = TypeVar("Key", bound=Hashable)
Sortable = TypeVar("Sortable", int, bytes, str, tuple[Any, ...])


class Pace:
    """Counts the items of one request."""

    __slots__ = ("_left", "_work")

    def __init__(self, work: LongWork) -> None:
        self._work = work
        self._left = STEP

    def due(self, items: int = 1) -> bool:
        """Count what comes next. True if others must have a turn before it."""
        self._left -= items
        return self._left < 0

    async def turn(self) -> None:
        """Wait for the next turn."""
        self._left = STEP
        await self._work.turn()

    async def repeated(self, keys: Iterable[Key]) -> dict[Key, None]:
        """The keys that are given more than once, in the order of their second appearance."""
        seen: set[Key] = set()
        twice: dict[Key, None] = {}
        for key in keys:
            if self.due():
                await self.turn()
            if key in seen:
                twice[key] = None
            seen.add(key)
        return twice

    async def in_order(self, items: Iterable[Sortable]) -> Iterator[Sortable]:
        """The items in order, as `sorted_in_steps` sorts them, with a turn after each step."""
        steps = sorted_in_steps(items)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                in_order: Iterator[Sortable] = ended.value
                return in_order
            await self.turn()
