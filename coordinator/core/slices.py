"""Long work in slices: generators that stop where other work may run."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

SLICE_ITEMS = 256

T = TypeVar("T")


def run_through(steps: Generator[None, None, T]) -> T:
    """Run `steps` to the end; what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            result: T = ended.value
            return result


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
