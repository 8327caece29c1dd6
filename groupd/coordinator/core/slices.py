"""Long work in slices: generators that stop where other work may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain
from typing import Any, TypeVar

SLICE_ITEMS = 256
"""Items between two stops."""
WORK_ITEMS = 1024
"""Items between two stops, where each is little work."""
REQUEST_ITEMS = 100
"""Items of a request between two stops, such as a partition that is looked up."""
LISTED_MAX = 10_000
"""Most items of one list on a page that people or tools look at."""
SORTED_AT_ONCE = 1024
"""Items that are sorted in one step."""

KEYS = 2000
"""Keys that are compared or hashed in one step, which takes no call of Python for each."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
A = TypeVar("A")
S = TypeVar("S", int, bytes, str, tuple[Any, ...])
"""What can be sorted."""


Steps = Generator[None, None, T]
"""Long work: it yields where other work may run, and returns its result. Whoever drives it, lets
others have their turn there."""

Turn = Callable[[], Awaitable[None]]
"""Waits until others have had their turn."""


async def _no_turn() -> None:
    raise AssertionError("a generator yields instead")


class Pace:
    """Counts what was done since the last stop. Generators yield where a stop is due, coroutines
    wait for their turn:

        if pace.due():
            await pace.turn()

    Items are counted, and time is not measured, so a recording stops at the same places. `items`:
    so many between two stops."""

    __slots__ = ("_done", "_items", "turn")

    def __init__(self, items: int = WORK_ITEMS, turn: Turn = _no_turn) -> None:
        self._done = 0
        self._items = items
        self.turn = turn

    def due(self, done: int = 1) -> bool:
        """Counts `done` items. True if a stop is due; then the count begins anew."""
        self._done += done
        if self._done < self._items:
            return False
        self._done = 0
        return True

    async def through(self, steps: Steps[T]) -> T:
        """Runs `steps` to the end, with a turn for others after each, and returns its result."""
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
    """Work without any steps: its result is there as soon as it has its turn."""
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
    """What `make` makes of each item, `size` of them in a step."""
    made: list[T] = []
    for chunk in chunks(items, size):
        if made:
            yield
        made += [make(item) for item in chunk]
    return made


def dict_in_steps(pairs: Iterable[tuple[K, T]]) -> Steps[dict[K, T]]:
    """The dict of these keys and values."""
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
    """The items that are given more than once, in the order of their second appearance."""
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
    """The items in the order of their keys, which default to the items themselves. Most of the
    sorting is done in the steps, the rest while the items are taken."""
    runs: list[list[S]] = []
    for some in chunks(items, SORTED_AT_ONCE):
        if runs:
            yield
        runs.append(sorted(some, key=key))
    return merge(*runs, key=key) if len(runs) > 1 else chain.from_iterable(runs)


def smallest(
    items: Iterable[S], count: int, keep: Callable[[S], bool] | None = None
) -> Steps[list[S]]:
    """The first `count` of the items in sorted order, each once; only those for which
    `keep` is true."""
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
    """An iterator of (key, value) that stands for a mapping which may be long. None in it is no
    pair but a stop."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterator[tuple[str, Any] | None]) -> None:
        self._pairs = pairs

    def __iter__(self) -> Iterator[tuple[str, Any] | None]:
        return self._pairs
