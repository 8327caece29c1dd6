"""The Prometheus collectors of parts of the daemon: transactions, the state of share-partitions,
cleaners, event loop, telemetry.

They read plain counters when they are scraped. The collectors of the broker and its sockets are in
`metrics.py`, those of the groups in `group_metrics.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UntypedMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from groupd.coordinator.cleaning.topic_cleaner import TopicCleaner
from groupd.coordinator.core.slices import chunks, run_through
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.security.quota_entities import KEYS
from groupd.coordinator.security.security import Security
from groupd.coordinator.share_state.coordinator import ShareCoordinator
from groupd.coordinator.topics.telemetry import Telemetry
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.coordinator.transactions.metadata import TransactionState

SAMPLES_PER_STEP = 64
Labels = TypeVar("Labels", bound=tuple[str, ...])
PREFIX = "kafka_server_transaction_coordinator_metrics_"
SHARE_PREFIX = "kafka_server_share_coordinator_metrics_"
RESULTS = ("committed", "aborted", "timed_out", "expired")
NEVER_AT_REST = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
NS_PER_S = 1_000_000_000


def gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, doc, value=value)


def total(name: str, doc: str, value: float) -> CounterMetricFamily:
    """A counter. The exposition format adds `_total` to its name."""
    return CounterMetricFamily(name, doc, value=value)


def untyped(name: str, doc: str, value: float) -> UntypedMetricFamily:
    """A counter under a name without `_total`, as the JMX exporter shows it."""
    return UntypedMetricFamily(name, doc, value=value)


def labelled(name: str, doc: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def totals(
    name: str, doc: str, labels: Sequence[str], values: Mapping[Labels, float]
) -> CounterMetricFamily:
    """A counter for each combination of labels."""
    family = CounterMetricFamily(name, doc, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


class LazySamples(list[Sample]):
    """Samples of one family that are made during the iteration, because there may be many."""

    def __init__(self, make: Callable[[], Iterator[Sample]]) -> None:
        super().__init__()
        self._make = make

    def __iter__(self) -> Iterator[Sample]:
        return self._make()


def text_steps(families: Collector) -> Generator[None, None, bytes]:
    """The same text as from `generate_latest`, a part at a time. The families must have no samples
    `_created`; ours have none."""
    text = bytearray()
    for family in families.collect():
        parts = chunks(family.samples, SAMPLES_PER_STEP)
        head = True
        for samples in chain((next(parts, []),), parts):
            part = Metric(family.name, family.documentation, family.type)
            part.samples = samples
            lines = generate_latest(_One(part))
            text += lines if head else b"".join(_without_head(lines))
            head = False
            yield
    return bytes(text)


def _without_head(lines: bytes) -> list[bytes]:
    """The lines without the head: a family has one head, however many parts it has."""
    return [line for line in lines.splitlines(keepends=True) if not line.startswith(b"#")]


class _One(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        return [self._family]


class TransactionMetrics(Collector):
    """Transactional ids, the outcome of transactions, and the writing of markers."""

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions
        self._counted: Mapping[TransactionState, int] | None = None

    async def prepare(self, work: LongWork) -> None:
        """Counts transactional ids in slices, for the next `collect`."""
        self._counted = await work.run(self._count())

    def _count(self) -> Generator[None, None, Mapping[TransactionState, int]]:
        found: Counter[TransactionState] = Counter(dict.fromkeys(TransactionState, 0))
        for shard in list(self._transactions.shards.values()):
            found.update((yield from shard.table.count_states()))
        return found

    def collect(self) -> Iterable[Metric]:
        markers = self._transactions.marker_counts
        logs = list(self._transactions.shards.values())
        yield gauge(
            PREFIX + "partition_load_time_max",
            "Longest load of a shard of transactional ids, ms.",
            max((log.load_ms for log in logs), default=0),
        )
        counted, self._counted = self._counted or run_through(self._count()), None
        states = {
            state.shown: count for state, count in counted.items() if state not in NEVER_AT_REST
        }
        yield labelled("groupd_transactional_ids", "Transactional ids by state.", "state", states)
        results = {(result,): self._transactions.counts[result] for result in RESULTS}
        doc = "Ended transactions, expired ids."
        yield totals("groupd_transactions", doc, ["result"], results)
        yield total("groupd_transaction_markers", "Markers written.", markers.written)
        yield total(
            "groupd_transaction_marker_retries", "Repeated rounds of markers.", markers.retries
        )
        records = sum(log.durable_offset - log.start_offset for log in logs)
        yield gauge("groupd_transaction_log_records", "Records in the logs of ids.", records)


class ShareStateMetrics(Collector):
    """The share coordinator: writes, and how far its logs are pruned."""

    def __init__(self, coordinator: ShareCoordinator) -> None:
        self._coordinator = coordinator

    def collect(self) -> Iterable[Metric]:
        counts = self._coordinator.counts
        shards = self._coordinator.served.by_number.values()
        yield gauge(
            SHARE_PREFIX + "partition_load_time_max",
            "Longest load of a shard of share-partitions, ms.",
            max((one.load_ms for one in shards), default=0),
        )
        yield total(SHARE_PREFIX + "write", "Writes of share-partitions.", counts.writes)
        latency = counts.latency.quantiles()["max"]
        yield gauge(SHARE_PREFIX + "write_latency_max", "Longest of the last writes, ms.", latency)
        pruned = {str(number): float(offset) for number, offset in counts.pruned.items()}
        doc = "Offset up to which the log was pruned last."
        yield labelled(SHARE_PREFIX + "last_pruned_offset", doc, "partition", pruned)
        doc = "Share-partitions with a state."
        yield gauge("groupd_share_partitions", doc, self._coordinator.share_partitions)


class LogCollector(Collector):
    """The cleaner of the shards' logs, and the event loop."""

    def __init__(self, cleaner: Cleaner, stalls: LoopStalls) -> None:
        self._cleaner = cleaner
        self._stalls = stalls

    def collect(self) -> Iterable[Metric]:
        stats = self._cleaner.stats
        yield total("groupd_cleaner_runs", "Logs cleaned.", stats.runs)
        yield total("groupd_cleaner_records_read", "Records the cleaner has read.", stats.read)
        yield total("groupd_cleaner_records_dropped", "Records it has removed.", stats.dropped)
        yield total("groupd_cleaner_failures", "Cleanings that failed.", stats.failures)
        yield gauge(
            "groupd_cleaner_dirty_records",
            "Records that a start would read uncompacted.",
            self._cleaner.dirty_records,
        )
        longest = self._stalls.longest_ns() / NS_PER_S
        yield gauge("groupd_event_loop_stall_seconds", "Longest stall of the last minute.", longest)
        yield total("groupd_event_loop_delays", "Stalls of 10 ms and more.", self._stalls.delays)
        yield total("groupd_event_loop_stalls", "Stalls of 50 ms and more.", self._stalls.stalls)
        yield total(
            "groupd_unheard_seconds",
            "Pauses that deadlines do not count.",
            self._stalls.clock.lost_ns / NS_PER_S,
        )


class TopicCleaningCollector(Collector):
    def __init__(self, cleaner: TopicCleaner) -> None:
        self._cleaner = cleaner

    def collect(self) -> Iterable[Metric]:
        deleted, compacted = self._cleaner.retention.deleted, self._cleaner.compaction.compacted
        yield total("groupd_retention_batches_deleted", "Deleted batches.", deleted.rows)
        yield total("groupd_retention_bytes_deleted", "Bytes of deleted batches.", deleted.size)
        yield total("groupd_compaction_runs", "Partitions of topics compacted.", compacted.runs)
        yield total("groupd_compaction_records_read", "Records read.", compacted.read)
        yield total("groupd_compaction_records_dropped", "Records removed.", compacted.dropped)
        yield total(
            "groupd_topic_cleaning_failures",
            "Retention and compaction of topics that failed.",
            self._cleaner.failures,
        )


class TelemetryCollector(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterable[Metric]:
        telemetry = self._telemetry
        yield gauge("groupd_telemetry_clients", "Clients known by telemetry.", telemetry.clients)
        yield total("groupd_telemetry_pushes", "Pushes of clients' metrics.", telemetry.pushes)
        yield total("groupd_telemetry_bytes", "Bytes of metrics pushed.", telemetry.bytes)
        yield total(
            "groupd_telemetry_refused", "Telemetry requests that were refused.", telemetry.refused
        )


class SecurityCollector(Collector):
    """The decisions of the authorizer, and how often and for how long clients had to wait."""

    def __init__(self, security: Security) -> None:
        self._authorizer = security.authorizer
        self._quotas = security.quotas

    def collect(self) -> Iterable[Metric]:
        yield from self._rights()
        yield from self._waits()

    def _rights(self) -> Iterable[Metric]:
        authorizer = self._authorizer
        answers = {("allowed",): authorizer.allowed, ("denied",): authorizer.denied}
        doc = "Questions about rights, by answer."
        yield totals("groupd_authorizations", doc, ["result"], answers)
        yield gauge("groupd_acls", "ACLs that there are.", len(authorizer.acls))

    def _waits(self) -> Iterable[Metric]:
        quotas = self._quotas
        often = {(key,): quotas.throttled[key] for key in KEYS}
        long = {(key,): quotas.throttled_ms[key] / 1000 for key in KEYS}
        doc = "How often clients had to wait, by quota."
        yield totals("groupd_throttled", doc, ["quota"], often)
        yield totals("groupd_throttle_seconds", "How long they had to wait.", ["quota"], long)
        yield gauge("groupd_quotas", "Entities that have quotas.", len(quotas.entries))
        yield gauge("groupd_quota_sensors", "Clients of which usage is known.", quotas.sensors)
