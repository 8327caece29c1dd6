"""`/metrics`: the Prometheus library is loaded and the registry is made at the first scrape.

The library loads Python's own HTTP server and client. That would take a tenth of a daemon's start,
and 4 MB in a daemon that is never scraped. It is loaded in a thread, so that the event loop goes on
meanwhile. Rates are still measured from the start of the daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest
from groupd.coordinator.admin.rates import Beginning
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.transactions.coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from groupd.coordinator.admin.metrics import MetricsRegistry


class Scrapes:
    """The scrapes of a daemon. `more()` makes the collectors of its other parts."""

    def __init__(
        self,
        broker: Broker,
        connections: ConnectionStats,
        transactions: TransactionCoordinator,
        more: Callable[[], Iterable[Collector]],
        work: LongWork,
    ) -> None:
        self._parts = (broker, connections, transactions)
        self._since = Beginning(broker.clock)
        self._more = more
        self._work = work
        self._registry: MetricsRegistry | None = None
        self._scrape: asyncio.Future[HttpReply] | None = None
        """The scrape that is under way, if there is one."""

    async def _prepared(self) -> MetricsRegistry:
        """The registry, ready for one scrape."""
        if self._registry is None:
            await asyncio.to_thread(import_module, "groupd.coordinator.admin.metrics")
            # Another scrape may have waited for the same import and made the registry.
            from groupd.coordinator.admin.metrics import make_registry

            self._registry = self._registry or make_registry(
                *self._parts, self._more(), self._since
            )
        await self._registry.prepare(self._work)
        return self._registry

    async def page(self, _: HttpRequest) -> HttpReply:
        """The route `/metrics`."""
        # Requests that come during a scrape get the result of that scrape.
        if self._scrape is None:
            self._scrape = asyncio.ensure_future(self._page())
            self._scrape.add_done_callback(self._scraped)
        return await asyncio.shield(self._scrape)

    def _scraped(self, _: asyncio.Future[HttpReply]) -> None:
        self._scrape = None

    async def _page(self) -> HttpReply:
        """The families as text for Prometheus, made in slices."""
        families = await self._prepared()

        from prometheus_client.exposition import CONTENT_TYPE_LATEST

        from groupd.coordinator.admin.collectors import text_steps

        return HttpReply(await self._work.run(text_steps(families)), CONTENT_TYPE_LATEST)
