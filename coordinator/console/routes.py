"""What the console adds to the admin port: the page, its files, and the streams below `/live`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import json

from groupd.coordinator.console.all_groups import AllGroups
from groupd.coordinator.console.asking import Asking, CannotAsk
from groupd.coordinator.console.files import ConsoleFiles
from groupd.coordinator.console.health import HealthParts, HealthSource
from groupd.coordinator.console.live import LiveTopics, event
from groupd.coordinator.console.one_group import OneGroup
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.admin_http import Answer, HttpReply, HttpRequest, text
from groupd.coordinator.server.admin_routes import AdminRoutes
from groupd.coordinator.server.http_stream import Event, HttpStream


class Console:
    """`groups`: the route `/groups`. `node()`: which node this is. `clock`: real time."""

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
        self._all = AllGroups(self._asking, work, clock.now, node)
        self._health = HealthSource(health, clock.now)

    def add_to(self, routes: AdminRoutes) -> None:
        routes.page = self._files.page
        routes.add("console", self._files.file)
        routes.add("live", self._live)

    async def close(self) -> None:
        """End all streams."""
        await self._topics.close()

    async def _live(self, request: HttpRequest) -> Answer:
        match request.path:
            case (_, "groups"):
                return HttpStream(self._topics.events("groups", self._all))
            case (_, "health"):
                return HttpStream(self._topics.events("health", self._health))
            case (_, "groups", group_id):
                try:
                    await self._asking.get("groups", group_id, "lag")
                except CannotAsk as error:
                    return _elsewhere(error.reply) or error.reply
                source = OneGroup(self._asking, group_id)
                return HttpStream(self._topics.events(f"group {group_id}", source))
            case _:
                return text("not found", 404)


def _elsewhere(reply: HttpReply) -> HttpStream | None:
    """The stream about a group that another node serves: it names the node. A browser must not
    follow to another host by itself. None: it is not elsewhere."""
    location = dict(reply.headers).get("Location")
    if location is None:
        return None
    url = urlsplit(location)
    told = reply.body.decode(errors="replace").strip()
    shown = {"told": told, "admin_url": f"{url.scheme}://{url.netloc}"}

    async def events() -> AsyncGenerator[Event, None]:
        yield event("elsewhere", json.encode(shown))

    return HttpStream(events())
