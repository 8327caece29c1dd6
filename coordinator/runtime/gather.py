"""One reply out of several partial ones, in the order of the questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Gather:
    """Calls `finish(parts)` once every part is there; at once when there are none."""

    __slots__ = ("_finish", "_missing", "_parts")

    def __init__(self, count: int, finish: Callable[[list[Any]], None]) -> None:
        self._parts: list[Any] = [None] * count
        self._missing = count
        self._finish = finish
        if count == 0:
            finish([])

    def part(self, index: int) -> Callable[[Any], None]:
        """The receiver of part `index`; to be called once."""

        def receive(value: Any) -> None:
            self._parts[index] = value
            self._missing -= 1
            if self._missing == 0:
                self._finish(self._parts)

        return receive
