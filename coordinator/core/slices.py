"""Long work in slices: generators that stop where others may have their turn."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

SLICE_ITEMS = 256

T = TypeVar("T")


def run_through(steps: Generator[None, None, T]) -> T:
    """What `steps` returns, without a stop."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


def spans(count: int, size: int) -> Iterator[slice]:
    """Of `count` items in their order, at most `size` at a time."""
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
