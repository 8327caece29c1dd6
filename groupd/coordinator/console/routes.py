"""What the console adds to the admin port: the page, its files, and the streams below `/live`."""

from __future__ import annotations

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
from groupd.coordinator.console.files import ConsoleFiles
from groupd.coordinator.console.health import HealthParts, HealthSource
from groupd.coordinator.console.live import LiveSource, LiveTopics
from groupd.coordinator.console.one_group import OneGroup, elsewhere
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork


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
        """End all streams."""
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
        """The stream of a topic. Its first event is waited for, so that a source which cannot be
        asked gets an answer of its own."""
        events = self._topics.events(key, source)
        try:
            return HttpStream(events, [await anext(events)])
        except Refusal as error:
            return error.reply
