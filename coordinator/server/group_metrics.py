"""The group coordinator's metrics under the names that Kafka's JMX exporter gives them (spec:
offsets and log, section 9), as far as this design has what they measure.

Not there: what measures threads and buffers that groupd has not (`background-*`,
`event-queue-time`, `batch-buffer-cache-*`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import EventKind
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import thread_cpu_s
from groupd.coordinator.runtime.shard_runtime import ShardState
from groupd.coordinator.runtime.stats import Durations
from groupd.coordinator.runtime.turns import Turns
from groupd.coordinator.server.families import gauge, labelled, untyped
from groupd.coordinator.server.group_counts import GroupCounts, count_steps
from groupd.coordinator.server.rates import Beginning, Rates

PREFIX = "kafka_server_group_coordinator_metrics_"
DEPRECATED_PREFIX = "kafka_coordinator_group_groupmetadatamanager_"
CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
NOT_SERVED = {"share": 0, "streams": 0}
LOOP_CPU = "loop-cpu-s"
FLUSHES = "batch_flush"
SLICE_MS = 2.0


class Meter(Struct, frozen=True):
    """Kafka's -count and -rate of something that comes as events of one kind."""

    name: str
    kind: EventKind
    doc: str


METERS = (
    Meter("offset_commit", EventKind.OFFSETS_COMMITTED, "Accepted commit records"),
    Meter("offset_expiration", EventKind.OFFSETS_EXPIRED, "Expired offsets"),
    Meter("offset_deletion", EventKind.OFFSETS_DELETED, "Offsets deleted on demand"),
    Meter(
        "group_completed_rebalance",
        EventKind.REBALANCE_COMPLETED,
        "Completed rebalances of classic groups",
    ),
    Meter(
        "consumer_group_rebalance",
        EventKind.TARGET_INSTALLED,
        "Target assignments of consumer groups",
    ),
)


class GroupMetrics(Collector):
    """Reads plain counters; one instance a registry, because rates remember earlier scrapes."""

    def __init__(self, broker: Broker, since: Beginning) -> None:
        self._broker = broker
        self._rates = Rates(since.monotonic_ms)
        self._cpu_start_s = since.cpu_s
        self._counted: GroupCounts | None = None

    async def prepare(self) -> None:
        """Counts groups in slices, for the next `collect`."""
        self._counted = await Turns(SLICE_MS, 0).run(count_steps(self._broker))

    def collect(self) -> Iterable[Metric]:
        yield from self._shards()
        yield from self._groups()
        yield from self._meters()
        yield from self._durations()

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
        counted, self._counted = self._counted or run_through(count_steps(self._broker)), None
        for (protocol, state), count in counted.by_state.items():
            counts = classic if protocol == "classic" else consumer
            counts[state] = counts.get(state, 0) + count
        offsets = counted.offsets
        classic_total = sum(classic.values())
        totals = {"classic": classic_total, "consumer": sum(consumer.values()), **NOT_SERVED}
        yield labelled(PREFIX + "group_count", "Groups by protocol.", "protocol", totals)
        yield labelled(PREFIX + "classic_group_count", "Classic groups by state.", "state", classic)
        yield labelled(
            PREFIX + "consumer_group_count", "Consumer groups by state.", "state", consumer
        )
        yield gauge(PREFIX + "offset_count", "Committed offsets.", offsets)
        yield from deprecated(classic_total, classic, offsets)

    def _meters(self) -> Iterable[Metric]:
        events = self._broker.event_counts
        counts: dict[str, float] = {one.name: events[one.kind.value] for one in METERS}
        counts[FLUSHES] = self._broker.writer.stats.flushes
        counts[LOOP_CPU] = thread_cpu_s() - self._cpu_start_s
        rates = self._rates.look(self._broker.clock.now().monotonic_ms, counts)
        for one in METERS:
            yield untyped(f"{PREFIX}{one.name}_count", f"{one.doc}.", counts[one.name])
            yield gauge(f"{PREFIX}{one.name}_rate", f"{one.doc}, a second.", rates[one.name])
        yield gauge(PREFIX + "batch_flush_rate", "Transactions a second.", rates[FLUSHES])
        idle = min(max(1 - rates[LOOP_CPU], 0.0), 1.0)
        yield gauge(PREFIX + "thread_idle_ratio_avg", "Idle part of the event loop.", idle)

    def _durations(self) -> Iterable[Metric]:
        writer = self._broker.writer
        yield gauge(
            PREFIX + "event_queue_size", "Logs that wait for the next transaction.", writer.waiting
        )
        kinds: Mapping[str, tuple[Durations, str]] = {
            "event_processing": (self._broker.processing, "Handling of a request"),
            "event_purgatory": (writer.stats.purgatory, "Wait for the commit"),
            "batch_linger": (writer.stats.linger, "Wait for the start of the commit"),
            "batch_flush": (writer.stats.flush, "The commit itself"),
        }
        for kind, (durations, doc) in kinds.items():
            for share, value in durations.quantiles().items():
                yield gauge(f"{PREFIX}{kind}_time_ms_{share}", f"{doc}, ms, {share}.", value)


def deprecated(groups: int, by_state: Mapping[str, int], offsets: int) -> Iterable[Metric]:
    """Gauges of Kafka's older `GroupMetadataManager`; they know classic groups only."""
    yield gauge(DEPRECATED_PREFIX + "numoffsets", "Committed offsets.", offsets)
    yield gauge(DEPRECATED_PREFIX + "numgroups", "Classic groups.", groups)
    for state in CLASSIC_STATES:
        name = f"{DEPRECATED_PREFIX}numgroups{state.lower()}"
        yield gauge(name, f"Classic groups in state {state}.", by_state[state])
