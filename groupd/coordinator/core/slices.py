"""Long work in slices: generators that stop where other work may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain
from typing import Any, TypeVar

SLICE_ITEMS = 256
"""How many items are done between two stops."""
WORK_ITEMS = 1024
"""How many items are done between two stops if each of them is little work."""
REQUEST_ITEMS = 100
"""How many items of a request, such as partitions that are looked up, are done between two
stops."""
LISTED_MAX = 10_000
"""How many items one list may have on a page for people or tools."""
SORTED_AT_ONCE = 1024
"""How many items are sorted in one step."""

KEYS = 2000
"""How many keys are compared or hashed in one step, if that takes no call of Python for each."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
S = TypeVar("S", int, bytes, str, tuple[Any, ...])
"""Types of values that can be sorted."""


Steps = Generator[None, None, T]
"""Long work: it yields where other work may run, and returns its result. The code that runs the
steps lets other work have its turn after each of them."""

Turn = Callable[[], Awaitable[None]]
"""Waits until other work has had its turn."""


async def _no_turn() -> None:
    raise AssertionError("a generator yields instead")


class Pace:
    """Counts the work since the last stop. When a stop is due, a generator yields and a coroutine
    waits for its turn:

        if pace.due():
            await pace.turn()

    Items are counted instead of time, so that a recording stops at the same places when it is run
    again. `items`: how many are done between two stops."""

    __slots__ = ("_done", "_items", "turn")

    def __init__(self, items: int = WORK_ITEMS, turn: Turn = _no_turn) -> None:
        self._done = 0
        self._items = items
        self.turn = turn

    def due(self, done: int = 1) -> bool:
        """Count `done` items; returns whether a stop is due. If so the count begins anew."""
        self._done += done
        if self._done < self._items:
            return False
        self._done = 0
        return True

    async def through(self, steps: Steps[T]) -> T:
        """Run `steps` to the end, with a turn for other work after each, and return its result."""
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                result: T = ended.value
                return result
            await self.turn()


def run_through(steps: Steps[T]) -> T:
    """Run `steps` to the end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def at_once(result: T) -> Steps[T]:
    """Work without any stop: the result is there in its first turn."""
    return result
    yield


def spans(count: int, size: int) -> Iterator[slice]:
    """Slices over `count` items, at most `size` items each."""
    for start in range(0, count, size):
        yield slice(start, start + size)


def chunks(items: Iterable[T], size: int = SLICE_ITEMS) -> Iterator[list[T]]:
    """The items, at most `size` at a time."""
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def mapped_in_steps(
    make: Callable[[A], T], items: Iterable[A], size: int = SLICE_ITEMS
) -> Steps[list[T]]:
    """What `make` returns for each item, `size` items in a step."""
    made: list[T] = []
    for chunk in chunks(items, size):
        if made:
            yield
        made += [make(item) for item in chunk]
    return made


def dict_in_steps(pairs: Iterable[tuple[K, T]]) -> Steps[dict[K, T]]:
    """The dict of these pairs."""
    found: dict[K, T] = {}
    for some in chunks(pairs, WORK_ITEMS):
        if found:
            yield
        found.update(some)
    return found


def distinct_in_steps(items: Sequence[K]) -> Steps[list[K]]:
    """Each item once, in the order in which they first appear."""
    found: dict[K, None] = {}
    for span in spans(len(items), KEYS):
        if span.start:
            yield
        found.update(dict.fromkeys(items[span]))
    return list(found)


def repeated_in_steps(items: Iterable[K]) -> Steps[dict[K, None]]:
    """The items that occur more than once, in the order of their second appearance."""
    seen: set[K] = set()
    twice: dict[K, None] = {}
    for some in chunks(items, REQUEST_ITEMS):
        if seen:
            yield
        for item in some:
            if item in seen:
                twice[item] = None
            seen.add(item)
    return twice


def sorted_in_steps(
    items: Iterable[S], key: Callable[[S], Any] | None = None
) -> Steps[Iterator[S]]:
    """The items in the order of their keys, or of the items themselves if `key` is None. Most of
    the sorting is done in the steps, the rest while the caller iterates over the result."""
    runs: list[list[S]] = []
    for some in chunks(items, SORTED_AT_ONCE):
        if runs:
            yield
        runs.append(sorted(some, key=key))
    return merge(*runs, key=key) if len(runs) > 1 else chain.from_iterable(runs)


def smallest(
    items: Iterable[S], count: int, keep: Callable[[S], bool] | None = None
) -> Steps[list[S]]:
    """The first `count` different items in sorted order. `keep`: only items for which it is
    true."""
    found: list[S] = []
    for some in chunks(items, SORTED_AT_ONCE):
        new = set(some if keep is None else filter(keep, some))
        if found and len(found) == count:
            last = found[-1]
            new = {item for item in new if item < last}
        if new:
            found += new.difference(found)
            found.sort()
            del found[count:]
        yield
    return found


class Pairs:
    """An iterator of (key, value) pairs that stands for a mapping which may be long. None is not a
    pair but a stop."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterator[tuple[str, Any] | None]) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[str, Any] | None]:
        return self._pairs
