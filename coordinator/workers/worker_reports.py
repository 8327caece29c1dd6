"""What a worker says of itself through the admin port of the main process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.admin_groups import GroupRoutes
from groupd.coordinator.server.admin_http import HttpRequest
from groupd.coordinator.server.collectors import LogCollector
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.metrics import make_registry
from groupd.coordinator.workers.messages import AdminAnswer
from groupd.coordinator.workers.metric_families import encode_families


class WorkerReports:
    def __init__(
        self,
        broker: Broker,
        connections: ConnectionStats,
        cleaner: Cleaner,
        stalls: LoopStalls,
    ) -> None:
        collectors = [lambda: LogCollector(cleaner, stalls)]
        self._registry = make_registry(broker, connections, None, collectors)
        self._groups = GroupRoutes(broker, None)

    async def metrics(self) -> bytes:
        await self._registry.prepare()
        return encode_families(self._registry)

    async def admin(self, path: Sequence[str], query: Mapping[str, str]) -> bytes:
        """What is below `/groups` and `/events`: an encoded `AdminAnswer`."""
        request = HttpRequest(tuple(path), dict(query))
        of_all = request.path[0] == "events"
        reply = await (self._groups.events(request) if of_all else self._groups(request))
        return AdminAnswer(reply.status, reply.content_type, reply.body).encode()
