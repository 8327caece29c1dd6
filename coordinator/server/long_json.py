"""Encodes JSON that may be long, in slices, and ends it where a page ends."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from io import BytesIO
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.core.slices import LISTED_MAX, SLICE_ITEMS, Pairs, chunks

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends with the item that makes it longer than this."""

Steps = Generator[None, None, None]


class Encoded(Struct):
    """`cut`: by name, the lists that do not end on this page, with the last item that is on it
    (None if there is none). A list at the top has the name ""."""

    body: bytes = b""
    cut: dict[str, Any] = field(default_factory=dict)


def json_steps(
    value: Any, items: int = LISTED_MAX, size: int = PAGE_BYTES
) -> Generator[None, None, Encoded]:
    """Encodes one line of compact JSON, a part at a time. `value`, or what stands directly in it if
    it is an object, may be a list, an iterator or `Pairs`. An iterator may give None to ask for a
    stop while it has no item yet.

    Each of them has at most `items` items on the page, and all together about `size` bytes. If an
    object leaves some out, it says so: `left_out` names the lists that do not end."""
    page = _Page(items, size)
    if isinstance(value, dict):
        separator = "{"
        for key, of_key in value.items():
            page.write(f"{separator}{_text(key)}: ")
            yield from page.list_of(key, of_key)
            separator = ", "
        if page.cut:
            page.write(f', "left_out": {_text(list(page.cut))}')
        page.write("}" if value else "{}")
    else:
        yield from page.list_of("", value)
    page.write("\n")
    return Encoded(page.body.getvalue(), page.cut)


class _Page:
    def __init__(self, items: int, size: int) -> None:
        self.cut: dict[str, Any] = {}
        self.body = BytesIO()  # which gives its bytes without a copy
        self._items = items
        self._size = size
        self._weight = 0
        """The weight of what was encoded since the last stop."""

    def write(self, text: str) -> None:
        self.body.write(text.encode())

    def list_of(self, name: str, value: Any) -> Steps:
        """Encodes a list within the limits of the page; anything else as it is."""
        if not isinstance(value, list | Iterator | Pairs):
            yield from self._value(value)
            return
        opening, closing = "{}" if isinstance(value, Pairs) else "[]"
        self.write(opening)
        last, count = None, 0
        named = isinstance(value, Pairs)
        items: Iterable[Any] = value
        for item in items:
            if item is None and not isinstance(value, list):
                yield
                continue
            if count == self._items or self.body.tell() >= self._size:
                self.cut[name] = last
                break
            if count:
                self.write(", ")
            if named:
                self.write(f"{_text(item[0])}: ")
                yield from self._value(item[1])
            else:
                yield from self._value(item)
            last, count = item, count + 1
        self.write(closing)

    def _value(self, value: Any) -> Steps:
        """Encodes a value of any size, with stops in between if it is long."""
        weight = _weight(value)
        if weight <= SLICE_ITEMS or isinstance(value, str):
            self.write(_text(value))
            self._weight += weight
            if self._weight >= SLICE_ITEMS:
                self._weight = 0
                yield
        elif isinstance(value, dict):
            separator = "{"
            for key, of_key in value.items():
                self.write(f"{separator}{_text(key)}: ")
                yield from self._value(of_key)
                separator = ", "
            self.write("}")
        else:
            separator = "["
            for some in chunks(value, SLICE_ITEMS // 2):
                if _weight(some) <= SLICE_ITEMS:
                    self.write(separator + _text(some)[1:-1])
                    separator = ", "
                    yield
                    continue
                for item in some:
                    self.write(separator)
                    yield from self._value(item)
                    separator = ", "
            self.write("]")


_text = json.JSONEncoder(ensure_ascii=False).encode


def _weight(value: Any) -> int:
    """How many values `value` is made of, counted as far as it matters here; at least 1. Long texts
    weigh more."""
    if isinstance(value, str):
        return 1 + len(value) // 1024
    if not isinstance(value, dict | list | tuple):
        return 1
    weight = 1
    for item in value.values() if isinstance(value, dict) else value:
        weight += _weight(item)
        if weight > SLICE_ITEMS:
            break
    return weight
