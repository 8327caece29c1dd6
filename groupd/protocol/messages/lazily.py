"""A long part of a reply whose items are made only when they are read.

To make a reply of a hundred thousand entries takes longer than other requests should wait. So a
`Lazily` holds a snapshot of the data, and its items are made from that, some at a time, while they
are encoded. `make` must only read data that does not change any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MANY = 100
"""`mapped` makes the items later if there are at least this many."""


class MadeAnew(Sequence[T_co]):
    """A sequence that is equal to the tuple of its items. Each iteration makes the items anew."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...
    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | MadeAnew):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self)} items>"


class Lazily(MadeAnew[T_co]):
    """`length` items, which `make` makes."""

    __slots__ = ("_length", "_make")

    def __init__(self, length: int, make: Callable[[], Iterator[T_co]]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T_co]:
        return self._make()


def mapped(make: Callable[[S], T], items: Sequence[S]) -> Sequence[T]:
    """The results of `make` for each item: made now if there are few, later if there are many."""
    if len(items) <= MANY:
        return tuple([make(item) for item in items])
    return Lazily(len(items), lambda: map(make, items))
