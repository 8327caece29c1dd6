"""Pages of JSON that may be long. They are encoded in slices, end at the size of a page, and have a
link to the next page.

A list has `?limit=` items, those behind `after=`. The header `Link` of a page leads to the next one
(RFC 8288); the last page has no such header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from types import NoneType
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct, field
from msgspec.json import encode

from groupd.coordinator.admin.http_messages import (
    JSON,
    Headers,
    HttpReply,
    HttpRequest,
    path_of,
    refusal,
)
from groupd.coordinator.core.slices import LISTED_MAX, SLICE_ITEMS, Pairs, Steps, chunks

PAGE_BYTES = 8 * 1024 * 1024
"""A page ends after the item with which it is longer than this."""

CURSOR_MAX = 1000
"""The most characters of `after` in a link, because a request with more would be refused. Items
that begin with the same `CURSOR_MAX` characters as the last one of a page may be left out."""
LAST_CHARACTER = "\U0010ffff"


class Window(Struct, frozen=True):
    """The part of a list that a request asks for. `after` None: from the beginning."""

    after: str | None
    limit: int


def window(request: HttpRequest) -> Window:
    """The part of a list that the request asks for. Raises Refusal."""
    text = request.query.get("limit", str(LISTED_MAX))
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not 1 <= number <= LISTED_MAX:
        raise refusal(f"limit must be a whole number from 1 to {LISTED_MAX}")
    return Window(request.query.get("after"), number)


def next_page(request: HttpRequest, after: str, limit: int) -> Headers:
    """The header with the link to the page after the item `after`."""
    if len(after) > CURSOR_MAX:
        after = after[:CURSOR_MAX] + LAST_CHARACTER
    query = {"after": after, "limit": str(limit)}
    query |= {name: one for name, one in request.query.items() if name not in query}
    target = f"{path_of(request.path)}?{urlencode(query, quote_via=quote)}"
    return (("Link", f'<{target}>; rel="next"'),)


def plain(value: Any) -> Steps[HttpReply]:
    """The reply for a value that fits on a page."""
    page = yield from json_steps(value)
    return HttpReply(page.body, JSON)


def paged(
    request: HttpRequest, wanted: Window, page: Encoded, name: str, key: Callable[[Any], str]
) -> HttpReply:
    """The reply with a page. If the list `name` goes on, it has a link to the next page, whose
    `after` is `key` of the last item."""
    if name not in page.cut:
        return HttpReply(page.body, JSON)
    last = page.cut[name]
    after = key(last) if last is not None else wanted.after or ""
    return HttpReply(page.body, JSON, headers=next_page(request, after, wanted.limit))


class Encoded(Struct):
    """An encoded page. `cut`: the lists that do not end on this page, by name, with their last item
    on it (None if there is none). A list at the top has the name ""."""

    body: bytes = b""
    cut: dict[str, Any] = field(default_factory=dict)


def json_steps(value: Any, items: int = LISTED_MAX, size: int = PAGE_BYTES) -> Steps[Encoded]:
    """Encodes one line of compact JSON, a part at a time. `value`, or the values directly in it if
    it is an object, may be a list, an iterator or `Pairs`. An iterator may give None to ask for a
    stop while it has no item yet.

    Each of these lists has at most `items` items on the page, and all together have about `size`
    bytes. If lists of an object are cut, the object gets a field `left_out` with their names."""
    page = _Page(items, size)
    if isinstance(value, dict):
        separator = b"{"
        for key, of_key in value.items():
            page.write(b"%b%b:" % (separator, encode(key)))
            yield from page.list_of(key, of_key)
            separator = b","
        if page.cut:
            page.write(b',"left_out":%b' % encode(list(page.cut)))
        page.write(b"}" if value else b"{}")
    else:
        yield from page.list_of("", value)
    page.write(b"\n")
    return Encoded(page.body.getvalue(), page.cut)


class _Page:
    def __init__(self, items: int, size: int) -> None:
        self.cut: dict[str, Any] = {}
        self.body = BytesIO()  # BytesIO gives its bytes without a copy
        self._items = items
        self._size = size
        self._weight = 0
        """The weight of what was encoded since the last stop."""

    def write(self, text: bytes) -> None:
        self.body.write(text)

    def list_of(self, name: str, value: Any) -> Steps[None]:
        """Encodes a list within the limits of the page; any other value as it is."""
        if not isinstance(value, list | Iterator | Pairs):
            yield from self._value(value)
            return
        opening, closing = (b"{", b"}") if isinstance(value, Pairs) else (b"[", b"]")
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
                self.write(b",")
            if named:
                self.write(encode(item[0]) + b":")
                yield from self._value(item[1])
            else:
                yield from self._value(item)
            last, count = item, count + 1
        self.write(closing)

    def _value(self, value: Any) -> Steps[None]:
        """Encodes a value of any size, with stops in between if it is long."""
        weight = _weight(value)
        if weight <= SLICE_ITEMS or isinstance(value, str):
            self.write(encode(value))
            self._weight += weight
            if self._weight >= SLICE_ITEMS:
                self._weight = 0
                yield
        elif isinstance(value, dict):
            separator = b"{"
            for key, of_key in value.items():
                self.write(b"%b%b:" % (separator, encode(key)))
                yield from self._value(of_key)
                separator = b","
            self.write(b"}")
        else:
            separator = b"["
            for some in chunks(value, SLICE_ITEMS // 2):
                if _weight(some) <= SLICE_ITEMS:
                    self.write(separator + encode(some)[1:-1])
                    separator = b","
                    yield
                    continue
                for item in some:
                    self.write(separator)
                    yield from self._value(item)
                    separator = b","
            self.write(b"]")


_SCALARS = frozenset((int, bool, float, NoneType))
_LISTS = (list, tuple)


def _weight(value: Any) -> int:
    """How many values `value` consists of, at least 1. The count stops where it is large enough for
    its use here. Long texts count more."""
    if isinstance(value, str):
        return 1 + len(value) // 1024
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, _LISTS):
        return 1
    weight = 1
    for item in value:
        # Most values are scalars, and a call for each would take longer than its encoding.
        weight += 1 if type(item) in _SCALARS else _weight(item)
        if weight > SLICE_ITEMS:
            break
    return weight
