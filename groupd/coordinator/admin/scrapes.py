"""`/metrics`: the Prometheus library is loaded and the registry is made at the first scrape.

The library loads Python's own HTTP server and client. That would take a tenth of a daemon's start,
and 4 MB in a daemon that is never scraped. It is loaded in a thread, so that the event loop goes on
meanwhile. Rates are still measured from the start of the daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest
from groupd.coordinator.admin.rates import Beginning
from groupd.coordinator.cleaning.topic_cleaner import TopicCleaner
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.transactions.coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from groupd.coordinator.admin.metrics import MetricsRegistry


class Scrapes:
    """The scrapes of a daemon. `collectors()`: the collectors of parts that this class does not
    know."""

    def __init__(
        self,
        broker: Broker,
        connections: ConnectionStats,
        transactions: TransactionCoordinator,
        cleaner: Cleaner,
        topic_cleaner: TopicCleaner,
        stalls: LoopStalls,
        collectors: Callable[[], Sequence[Callable[[], Collector]]],
        work: LongWork,
    ) -> None:
        self._parts = (broker, connections, transactions)
        self._log_parts = (cleaner, stalls)
        self._topic_cleaner = topic_cleaner
        self._since = Beginning(broker.clock)
        self._collectors = collectors
        self._more: list[Callable[[], Collector]] = []
        self._work = work
        self._registry: MetricsRegistry | None = None
        self._scrape: asyncio.Future[HttpReply] | None = None
        """The scrape that is under way, if there is one."""

    def add(self, make: Callable[[], Collector]) -> None:
        """Adds a collector. Call it before the first scrape."""
        assert self._registry is None
        self._more.append(make)

    async def _prepared(self) -> MetricsRegistry:
        """The registry, ready for one scrape."""
        if self._registry is None:
            await asyncio.to_thread(import_module, "groupd.coordinator.admin.metrics")
            # Another scrape may have waited for the same import and made the registry.
            self._registry = self._registry or self._made()
        await self._registry.prepare(self._work)
        return self._registry

    def _made(self) -> MetricsRegistry:
        from groupd.coordinator.admin.collectors import LogCollector, TopicCleaningCollector
        from groupd.coordinator.admin.metrics import make_registry

        own = [
            lambda: LogCollector(*self._log_parts),
            lambda: TopicCleaningCollector(self._topic_cleaner),
        ]
        more = [*own, *self._collectors(), *self._more]
        return make_registry(*self._parts, more, self._since)

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
