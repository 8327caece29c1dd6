"""Prometheus metrics, read from plain counters when scraped.

Group-coordinator metrics bear the names that Kafka's JMX exporter gives them (spec: offsets and
log, section 9); groupd's own start with `groupd_`. `docs/metrics.md` lists all of them.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from coordinator.core.types import EventKind
from coordinator.runtime.broker import Broker
from coordinator.runtime.shard_runtime import ShardState
from coordinator.server.connection import ConnectionStats
from protocol.wire.apis import API_BY_KEY

PREFIX = "kafka_server_group_coordinator_metrics_"
CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")


@dataclass(frozen=True, slots=True)
class EventCounter:
    """A Kafka meter whose count is the number of events of one kind."""

    name: str
    kind: EventKind
    doc: str


EVENT_COUNTERS = (
    EventCounter("offset_commit_count", EventKind.OFFSETS_COMMITTED, "Accepted commit records."),
    EventCounter("offset_expiration_count", EventKind.OFFSETS_EXPIRED, "Expired offsets."),
    EventCounter("offset_deletion_count", EventKind.OFFSETS_DELETED, "Offsets deleted on demand."),
    EventCounter(
        "group_completed_rebalance_count",
        EventKind.REBALANCE_COMPLETED,
        "Completed rebalances of classic groups.",
    ),
    EventCounter(
        "consumer_group_rebalance_count",
        EventKind.TARGET_INSTALLED,
        "Rebalances of consumer groups.",
    ),
)


class CoordinatorCollector(Collector):
    """Everything that the broker and its connections count."""

    def __init__(self, broker: Broker, connections: ConnectionStats) -> None:
        self._broker = broker
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        yield from self._shards()
        yield from self._groups()
        yield from self._events()
        yield from self._sockets()
        yield from self._log()

    def _shards(self) -> Iterable[Metric]:
        states = dict.fromkeys(("loading", "active", "failed"), 0)
        for shard in self._broker.shards:
            if shard.state is not ShardState.CLOSED:
                states[shard.state.value] += 1
        yield labelled(PREFIX + "num_partitions", "Shards by state.", "state", states)
        times = [shard.load_ms for shard in self._broker.shards] or [0]
        yield gauge(PREFIX + "partition_load_time_max", "Longest load of a shard, ms.", max(times))
        mean = sum(times) / len(times)
        yield gauge(PREFIX + "partition_load_time_avg", "Mean load of a shard, ms.", mean)

    def _groups(self) -> Iterable[Metric]:
        classic = dict.fromkeys(CLASSIC_STATES, 0)
        consumer = dict.fromkeys(CONSUMER_STATES, 0)
        offsets = 0
        for shard in self._broker.shards:
            if shard.state is not ShardState.ACTIVE:
                continue  # what it held is lost or not complete
            offsets += shard.shard.offset_count()
            for protocol, state in shard.shard.group_states():
                counts = classic if protocol == "classic" else consumer
                counts[state] = counts.get(state, 0) + 1
        totals = {"classic": sum(classic.values()), "consumer": sum(consumer.values())}
        yield labelled(PREFIX + "group_count", "Groups by protocol.", "protocol", totals)
        yield labelled(PREFIX + "classic_group_count", "Classic groups by state.", "state", classic)
        yield labelled(
            PREFIX + "consumer_group_count", "Consumer groups by state.", "state", consumer
        )
        yield gauge(PREFIX + "offset_count", "Committed offsets.", offsets)

    def _events(self) -> Iterable[Metric]:
        counts = self._broker.event_counts
        for counter in EVENT_COUNTERS:
            yield total(PREFIX + counter.name, counter.doc, counts[counter.kind.value])
        events = CounterMetricFamily(
            "groupd_events", "Facts about groups, by kind.", labels=["kind"]
        )
        for kind in EventKind:
            events.add_metric([kind.value], counts[kind.value])
        yield events

    def _sockets(self) -> Iterable[Metric]:
        stats = self._connections
        yield gauge("groupd_connections_open", "Open client connections.", stats.open)
        yield total("groupd_connections_accepted", "Accepted connections.", stats.accepted)
        yield total("groupd_connections_refused", "Refused: max.connections.", stats.refused)
        yield total(
            "groupd_connections_malformed", "Closed for malformed requests.", stats.malformed
        )
        yield total("groupd_connections_stalled", "Dropped: replies left unread.", stats.stalled)
        yield total("groupd_received_bytes", "Bytes received from clients.", stats.bytes_in)
        yield total("groupd_sent_bytes", "Bytes sent to clients.", stats.bytes_out)
        yield total(
            "groupd_replies_repeated", "Heartbeats answered from the last reply.", stats.repeated
        )
        requests = CounterMetricFamily(
            "groupd_requests", "Requests by API and version.", labels=["api", "version"]
        )
        for (key, version), count in sorted(stats.requests.items()):
            requests.add_metric([API_BY_KEY[key].name, str(version)], count)
        yield requests
        yield gauge("groupd_requests_waiting", "Unanswered requests.", len(self._broker.waiting))

    def _log(self) -> Iterable[Metric]:
        writer = self._broker.writer
        yield total("groupd_log_transactions", "Committed store transactions.", writer.transactions)
        yield total("groupd_log_batches", "Record batches written.", writer.batches)
        yield total("groupd_log_failures", "Failed store transactions.", writer.failures)
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield gauge("groupd_peak_resident_bytes", "Largest resident set.", peak_kib * 1024)


def gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, doc, value=value)


def total(name: str, doc: str, value: float) -> CounterMetricFamily:
    """A counter; the exposition adds `_total`."""
    return CounterMetricFamily(name, doc, value=value)


def labelled(name: str, doc: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def make_registry(
    broker: Broker, connections: ConnectionStats, more: Iterable[Callable[[], Collector]] = ()
) -> CollectorRegistry:
    """A registry of its own, so that several daemons fit into one process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(CoordinatorCollector(broker, connections))
    for make in more:
        registry.register(make())
    return registry
