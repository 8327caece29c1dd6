"""Asks the routes of the admin port from within the process. So the console shows what everybody
can ask for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import json

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, Refusal

AT_ONCE = 2000
"""Rows of one page: decoding them takes some milliseconds."""

OK = 200


class Asking:
    """`route`: answers what is below `/groups`."""

    def __init__(self, route: Callable[[HttpRequest], Awaitable[HttpReply]]) -> None:
        self._route = route

    async def get(self, *path: str, query: Mapping[str, str] | None = None) -> HttpReply:
        """The answer to a GET. Raises Refusal."""
        reply = await self._route(HttpRequest(path, dict(query or {})))
        if reply.status != OK:
            raise Refusal(reply)
        return reply

    async def pages(
        self, *path: str, query: Mapping[str, str] | None = None
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """All rows of a list, a page at a time. Raises Refusal."""
        asked: Mapping[str, str] | None = {**(query or {}), "limit": str(AT_ONCE)}
        while asked is not None:
            reply = await self.get(*path, query=asked)
            yield json.decode(reply.body)
            asked = _next(reply)


def _next(reply: HttpReply) -> Mapping[str, str] | None:
    """The query of the next page."""
    link = dict(reply.headers).get("Link")
    if link is None:
        return None
    return dict(parse_qsl(urlsplit(link[1 : link.index(">")]).query))
