"""All groups, live: first a row for each group, then the rows that have changed.

The console asks the routes of the admin port from within the process (`Asking`), so it shows what
every client of the port can ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import json

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, Refusal, StreamEvent
from groupd.coordinator.console.live import event
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.long_work import LongWork

GROUPS_PER_PAGE = 2000
"""How many rows are read at a time: decoding them takes some milliseconds."""

OK = 200
ConsoleRow = dict[str, Any]
ROW_MS = 0.015
"""The time that a row costs, from the group to the comparison."""
GROUPS_MAX = 20_000
"""The most groups that are listed, up to 8 MB: the first ones by id."""


class Asking:
    """Asks the admin port from within the process. `route` answers what is below `/groups`."""

    def __init__(self, route: Callable[[HttpRequest], Awaitable[HttpReply]]) -> None:
        self._route = route

    async def get(self, *path: str, query: Mapping[str, str] | None = None) -> HttpReply:
        """The reply to a GET. Raises Refusal."""
        reply = await self._route(HttpRequest(path, dict(query or {})))
        if reply.status != OK:
            raise Refusal(reply)
        return reply

    async def pages(
        self, *path: str, query: Mapping[str, str] | None = None
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """All rows of a list, a page at a time. Raises Refusal."""
        asked: Mapping[str, str] | None = {**(query or {}), "limit": str(GROUPS_PER_PAGE)}
        while asked is not None:
            reply = await self.get(*path, query=asked)
            yield json.decode(reply.body)
            asked = _next(reply)


def _next(reply: HttpReply) -> Mapping[str, str] | None:
    """The query of the next page; None after the last page."""
    link = dict(reply.headers).get("Link")
    if link is None:
        return None
    return dict(parse_qsl(urlsplit(link[1 : link.index(">")]).query))


class AllGroups:
    """A `live.LiveSource`. `node()`: this node, as JSON-friendly data. `not_ready()`: why this node
    may not serve all its groups now; None if it does. `others()`: the other nodes of a cluster,
    whose groups are not listed here, with `node` and `admin`, the URL of the admin port."""

    tells_changes = True

    def __init__(
        self,
        asking: Asking,
        work: LongWork,
        now: Callable[[], Instant],
        node: Callable[[], Mapping[str, Any]],
        not_ready: Callable[[], str | None],
        others: Callable[[], Sequence[Mapping[str, Any]]],
    ) -> None:
        self._asking = asking
        self._work = work
        self._now = now
        self._node = node
        self._not_ready = not_ready
        self._others = others
        self.cost_ms = 0.0
        self._rows: dict[str, ConsoleRow] = {}
        self._lacks: dict[str, Any] = {}
        """What the list lacks: `more`, whether there are more groups than are listed; `missing`,
        why groups may be missing; and `other_nodes`."""
        self._version = 0
        self._whole: asyncio.Task[StreamEvent] | None = None
        """The task that makes the event with everything for this version; None until it is
        needed."""

    async def look(self) -> StreamEvent | None:
        rows: dict[str, ConsoleRow] = {}
        changed: list[ConsoleRow] = []
        more = False
        async with aclosing(self._asking.pages("groups", query={"trend": "1"})) as pages:
            async for some in pages:
                more = len(rows) >= GROUPS_MAX
                if more:
                    break
                await self._work.run(self._compare(some, rows, changed))
        lacks = {"more": more, "missing": self._not_ready(), "other_nodes": self._others()}
        gone = [group_id for group_id in self._rows if group_id not in rows]
        self.cost_ms = len(rows) * ROW_MS
        if self._version and not changed and not gone and lacks == self._lacks:
            return None
        first = not self._version
        news: StreamEvent = ()
        if not first:
            head = {**self._head(self._version + 1, lacks), "gone": gone}
            news = await self._work.run(_encoded("changes", head, changed))
        self._rows, self._lacks, self._whole = rows, lacks, None
        self._version += 1
        return await self.whole() if first else news

    def _compare(
        self, some: list[ConsoleRow], rows: dict[str, ConsoleRow], changed: list[ConsoleRow]
    ) -> Steps[None]:
        for chunk in chunks(some):
            for row in chunk:
                group_id = row["group_id"]
                rows[group_id] = row
                if self._rows.get(group_id) != row:
                    changed.append(row)
            yield

    async def whole(self) -> StreamEvent:
        if self._whole is None:
            head = {**self._head(self._version, self._lacks), "node": self._node()}
            steps = _encoded("snapshot", head, list(self._rows.values()))
            self._whole = asyncio.create_task(self._work.run(steps))
        # If one listener goes away, the task goes on for the others.
        return await asyncio.shield(self._whole)

    def _head(self, version: int, lacks: Mapping[str, Any]) -> dict[str, Any]:
        return {"version": version, "now_ms": self._now().wall_ms, **lacks}


def _encoded(name: str, head: Mapping[str, Any], rows: list[ConsoleRow]) -> Steps[StreamEvent]:
    """The event, which is made a part at a time."""
    parts: list[bytes | memoryview] = []
    for some in chunks(rows):
        if parts:
            parts.append(b",")
        parts.append(memoryview(json.encode(some))[1:-1])
        yield
    return event(name, json.encode(head)[:-1], b',"rows":[', *parts, b"]}")
