"""Pages of long lists: `?limit=` items, those behind `after=`. The header `Link` of a page leads to
the next one (RFC 8288); without it, the page is the last."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from msgspec import Struct

from groupd.coordinator.admin.http_server import BadRequest, HttpRequest
from groupd.coordinator.admin.http_target import path_of
from groupd.coordinator.core.slices import LISTED_MAX

Headers = tuple[tuple[str, str], ...]

CURSOR_MAX = 1000
"""Characters of `after` in a link: a request with more would be refused. Items that share that many
with the last one of a page may be left out."""
LAST_CHARACTER = "\U0010ffff"


class Window(Struct, frozen=True):
    """The part of a list that a request wants to see. `after` None: from the beginning."""

    after: str | None
    limit: int


def window(request: HttpRequest) -> Window:
    """The window that the request asks for. Raises BadRequest."""
    text = request.query.get("limit", str(LISTED_MAX))
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not 1 <= number <= LISTED_MAX:
        raise BadRequest(f"limit must be a whole number from 1 to {LISTED_MAX}")
    return Window(request.query.get("after"), number)


def next_page(request: HttpRequest, after: str, limit: int) -> Headers:
    """The header of a page whose last item is `after`."""
    if len(after) > CURSOR_MAX:
        after = after[:CURSOR_MAX] + LAST_CHARACTER
    query = {"after": after, "limit": str(limit)}
    query |= {name: one for name, one in request.query.items() if name not in query}
    target = f"{path_of(request.path)}?{urlencode(query, quote_via=quote)}"
    return (("Link", f'<{target}>; rel="next"'),)
