"""`/telemetry` of the admin port: every client that has sent telemetry requests, and what it
pushed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupd.coordinator.runtime.turns import Turns
from groupd.coordinator.server.admin_http import JSON, HttpReply, HttpRequest
from groupd.coordinator.server.admin_routes import AdminRoutes
from groupd.coordinator.server.long_json import json_steps
from groupd.coordinator.server.scrapes import Scrapes
from groupd.coordinator.topics.telemetry import Telemetry

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

SLICE_MS = 2.0


def add_telemetry(routes: AdminRoutes, scrapes: Scrapes, telemetry: Telemetry) -> None:
    """Adds the route `/telemetry`, and the counters on `/metrics`."""

    async def page(_: HttpRequest) -> HttpReply:
        clients = list(telemetry.shown())
        return HttpReply(await Turns(SLICE_MS, 0).run(json_steps(clients)), JSON)

    def collector() -> Collector:
        # Imported late, at the first scrape, as the whole library is.
        from groupd.coordinator.server.collectors import TelemetryCollector

        return TelemetryCollector(telemetry)

    routes.add("telemetry", page)
    scrapes.add(collector)
