"""What the console adds to the admin port: the page, its files, and the streams below `/live`.

The files are read once, in a thread. They hold nothing secret, so every client gets them. The page
then asks for the data that it shows, with the credentials of its user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from groupd.coordinator.admin.http_messages import (
    Answer,
    HttpReply,
    HttpRequest,
    HttpStream,
    Refusal,
    text,
)
from groupd.coordinator.admin.routes import AdminRoutes
from groupd.coordinator.console.all_groups import AllGroups, Asking
from groupd.coordinator.console.built import built_files
from groupd.coordinator.console.health import HealthParts, HealthSource
from groupd.coordinator.console.live import LiveSource, LiveTopics
from groupd.coordinator.console.one_group import OneGroup, elsewhere
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Allows nothing from elsewhere and nothing inline: a group's name can never run as a script."""

_HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache"),
)
NOT_BUILT = (
    "this installation has no web page: it was made without npm. Install npm and run `make run` "
    "again, or install groupd from a wheel"
)


class ConsoleFiles:
    """The page and its files. They are read at the first request."""

    def __init__(self) -> None:
        self._files: Mapping[str, bytes] | None = None

    async def page(self, request: HttpRequest) -> HttpReply:
        """The route `/` for browsers."""
        return await self._reply(INDEX)

    async def file(self, request: HttpRequest) -> HttpReply:
        """The route `/console/NAME`."""
        match request.path:
            case (_, name):
                return await self._reply(name)
            case _:
                return text("not found", 404)

    async def _reply(self, name: str) -> HttpReply:
        if self._files is None:
            self._files = await asyncio.to_thread(_read)
        if name not in self._files:
            return text(NOT_BUILT if name == INDEX else "not found", 404)
        return HttpReply(self._files[name], TYPES[name.rpartition(".")[2]], headers=_HEADERS)


def _read() -> Mapping[str, bytes]:
    return {
        name: content for name, content in built_files().items() if name.rpartition(".")[2] in TYPES
    }


class Console:
    """The console of a daemon. `groups`: the route `/groups`. `node()`: this node. `clock`: real
    time."""

    def __init__(
        self,
        groups: Callable[[HttpRequest], Awaitable[HttpReply]],
        health: HealthParts,
        node: Callable[[], Mapping[str, Any]],
        work: LongWork,
        clock: Clock,
    ) -> None:
        self._files = ConsoleFiles()
        self._topics = LiveTopics(clock)
        self._asking = Asking(groups)
        self._health = HealthSource(health, clock.now)
        self._parts = health
        self._node = node
        self._work = work
        self._clock = clock

    def add_to(self, routes: AdminRoutes) -> None:
        routes.page = self._files.page
        routes.add("console", self._files.file)
        routes.add("live", self._live)

    async def close(self) -> None:
        """Ends all streams."""
        await self._topics.close()

    async def _live(self, request: HttpRequest) -> Answer:
        match request.path:
            case (_, "groups"):
                return await self._stream("groups", self._all_groups())
            case (_, "health"):
                return await self._stream("health", self._health)
            case (_, "groups", group_id):
                try:
                    await self._asking.get("groups", group_id, "lag")
                except Refusal as error:
                    if elsewhere(error.reply) is None:
                        return error.reply
                return await self._stream(f"group {group_id}", OneGroup(self._asking, group_id))
            case _:
                return text("not found", 404)

    def _all_groups(self) -> AllGroups:
        asking, work, now = self._asking, self._work, self._clock.now
        return AllGroups(asking, work, now, self._node, self._parts.not_ready, self._other_nodes)

    def _other_nodes(self) -> Sequence[Mapping[str, Any]]:
        own = self._node()["id"]
        nodes = sorted(self._parts.nodes(), key=lambda one: int(one["node"]))
        return [{"node": one["node"], "admin": one["admin"]} for one in nodes if one["node"] != own]

    async def _stream(self, key: str, source: LiveSource) -> Answer:
        """The stream of a topic. The first event is awaited, so that a source which cannot be asked
        leads to a reply with an error."""
        events = self._topics.events(key, source)
        try:
            return HttpStream(events, [await anext(events)])
        except Refusal as error:
            return error.reply
