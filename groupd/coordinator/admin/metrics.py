"""Prometheus metrics of the broker and its connections. They are read from plain counters at a
scrape.

Metrics of the group coordinator have the names that Kafka's JMX exporter gives them
(docs/spec/offsets-and-log.md#9); groupd's own start with `groupd_`. `docs/metrics.md` lists all of
them.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import TransactionMetrics, gauge, labelled, total, totals
from groupd.coordinator.admin.group_metrics import GroupMetrics, event_count
from groupd.coordinator.admin.rates import Beginning
from groupd.coordinator.core.types import EventKind
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.protocol.wire.apis import API_BY_KEY


@runtime_checkable
class LongCollector(Protocol):
    """A collector that has long work to do before its `collect`, in slices."""

    async def prepare(self, work: LongWork) -> None: ...


class MetricsRegistry(CollectorRegistry):
    """A registry of collectors. `await prepare(work)` right before a scrape does the long work in
    slices. Without it, the scrape does everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self._long: list[LongCollector] = []

    def register(self, collector: Collector) -> None:
        """Registers a collector; `prepare` knows those with long work."""
        super().register(collector)
        if isinstance(collector, LongCollector):
            self._long.append(collector)

    async def prepare(self, work: LongWork) -> None:
        for collector in self._long:
            await collector.prepare(work)


class CoordinatorCollector(Collector):
    """Collects everything that the broker and its connections count."""

    def __init__(self, broker: Broker, connections: ConnectionStats) -> None:
        self._broker = broker
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        yield from self._events()
        yield from self._sockets()
        yield from self._tls()
        yield from self._logins()
        yield from self._log()

    def _events(self) -> Iterable[Metric]:
        counts = self._broker.events.counts
        events = {(kind.value,): event_count(counts, kind) for kind in EventKind}
        yield totals("groupd_events", "Facts about groups, by kind.", ["kind"], events)

    def _sockets(self) -> Iterable[Metric]:
        stats = self._connections
        yield gauge("groupd_connections_open", "Open client connections.", stats.open)
        yield gauge("groupd_connections_allowed", "Limit of connections.", stats.most)
        yield gauge("groupd_acceptors_blocked", "Sockets with waiting clients.", stats.blocked)
        yield total("groupd_connections_accepted", "Accepted connections.", stats.accepted)
        yield total("groupd_connections_refused", "Closed for their address.", stats.refused)
        yield total(
            "groupd_connections_malformed", "Closed for malformed requests.", stats.malformed
        )
        yield total("groupd_connections_stalled", "Dropped: replies left unread.", stats.stalled)
        yield total(
            "groupd_connections_overdue", "Dropped: held memory that others needed.", stats.overdue
        )
        budget = stats.budget
        yield gauge("groupd_held_bytes", "Memory of connections.", budget.used if budget else 0)
        waiting = budget.waiting if budget else 0
        yield gauge("groupd_waiting_for_memory", "Waiting for memory.", waiting)
        yield total("groupd_received_bytes", "Bytes received from clients.", stats.bytes_in)
        yield total("groupd_sent_bytes", "Bytes sent to clients.", stats.bytes_out)
        yield total(
            "groupd_replies_repeated", "Heartbeats answered from the last reply.", stats.repeated
        )
        yield total("groupd_commits_repeated", "Always 0: every commit is decoded.", 0)
        requests = {
            (API_BY_KEY[key].name, str(version)): count
            for (key, version), count in stats.all_requests().items()
        }
        doc = "Requests by API and version."
        yield totals("groupd_requests", doc, ["api", "version"], requests)
        yield gauge("groupd_requests_waiting", "Unanswered requests.", len(self._broker.waiting))

    def _tls(self) -> Iterable[Metric]:
        handshakes = self._connections.handshakes
        if handshakes is None:
            return
        yield gauge("groupd_tls_handshakes_pending", "Handshakes under way.", handshakes.pending)
        ended = {("succeeded",): handshakes.succeeded, ("failed",): handshakes.failed}
        yield totals("groupd_tls_handshakes", "TLS handshakes.", ["result"], ended)
        expiry: dict[str, float] = {}
        reloads: dict[tuple[str, ...], float] = {}
        for one in self._connections.certificates():
            expiry[one.listener] = one.expires
            reloads[one.listener, "succeeded"] = one.reloads
            reloads[one.listener, "failed"] = one.failed_reloads
        yield labelled(
            "groupd_tls_certificate_expiry_timestamp_seconds",
            "When the certificate of a listener expires.",
            "listener",
            expiry,
        )
        yield totals(
            "groupd_tls_certificate_reloads",
            "Certificates that were read again.",
            ["listener", "result"],
            reloads,
        )

    def _logins(self) -> Iterable[Metric]:
        stats = self._connections.sasl
        labels = ["listener", "mechanism", "result"]
        logins: dict[bool, dict[tuple[str, ...], float]] = {False: {}, True: {}}
        for (listener, mechanism, repeated, succeeded), count in sorted(stats.logins.items()):
            key = (listener, mechanism, "ok" if succeeded else "failed")
            logins[repeated][key] = count
        yield totals("groupd_authentications", "Logins with SASL.", labels, logins[False])
        doc = "Further logins on open connections."
        yield totals("groupd_reauthentications", doc, labels, logins[True])
        yield total(
            "groupd_authentications_without_reauthentication",
            "Logins of clients that cannot authenticate again.",
            stats.no_reauthentication,
        )
        yield total(
            "groupd_expired_connections_killed",
            "Connections whose session was over.",
            stats.expired,
        )

    def _log(self) -> Iterable[Metric]:
        writer = self._broker.writer
        yield total("groupd_log_transactions", "Committed store transactions.", writer.transactions)
        yield total("groupd_log_batches", "Record batches written.", writer.batches)
        yield total("groupd_log_failures", "Failed store transactions.", writer.failures)
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield gauge("groupd_peak_resident_bytes", "Largest resident set.", peak_kib * 1024)


def make_registry(
    broker: Broker,
    connections: ConnectionStats,
    transactions: TransactionCoordinator,
    more: Iterable[Collector],
    since: Beginning,
) -> MetricsRegistry:
    """A new registry, so that several daemons fit into one process. `since`: the moment from which
    rates are first measured."""
    registry = MetricsRegistry()
    registry.register(GroupMetrics(broker, since))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(CoordinatorCollector(broker, connections))
    registry.register(TransactionMetrics(transactions))
    for collector in more:
        registry.register(collector)
    return registry
