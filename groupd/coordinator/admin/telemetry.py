"""`/telemetry` of the admin port: every client that has sent telemetry requests, and what it
pushed."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, refusal
from groupd.coordinator.admin.pages import json_steps, paged, window
from groupd.coordinator.admin.routes import AdminRoutes
from groupd.coordinator.admin.scrapes import Scrapes
from groupd.coordinator.core.slices import smallest
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics.telemetry import Telemetry, read_id

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


def add_telemetry(
    routes: AdminRoutes, scrapes: Scrapes, telemetry: Telemetry, work: LongWork
) -> None:
    """Adds the route `/telemetry`, and the counters on `/metrics`."""

    def steps(request: HttpRequest) -> Generator[None, None, HttpReply]:
        wanted = window(request)
        after = _instance(wanted.after)
        instances = yield from smallest(
            telemetry.instances(), wanted.limit + 1, lambda instance: instance > after
        )
        page = yield from json_steps(map(telemetry.shown, instances), wanted.limit)
        return paged(request, wanted, page, "client_instance_id", "")

    async def page(request: HttpRequest) -> HttpReply:
        return await work.run(steps(request))

    def collector() -> Collector:
        # Imported late, at the first scrape, as the whole library is.
        from groupd.coordinator.admin.collectors import TelemetryCollector

        return TelemetryCollector(telemetry)

    routes.add("telemetry", page)
    scrapes.add(collector)


def _instance(shown: str | None) -> bytes:
    """Raises Refusal."""
    try:
        return b"" if shown is None else read_id(shown)
    except ValueError:
        raise refusal("after must be a client_instance_id") from None
