"""The group coordinator's metrics under the names that Kafka's JMX exporter gives them
(docs/spec/offsets-and-log.md#9), as far as groupd has what they measure.

Metrics of threads and buffers that groupd does not have are left out (`background-*`,
`event-queue-time`, `batch-buffer-cache-*`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import gauge, labelled, untyped
from groupd.coordinator.admin.rates import Beginning, Rates
from groupd.coordinator.core.classic_group.type import CLASSIC
from groupd.coordinator.core.group_type import Meter
from groupd.coordinator.core.group_types import GROUP_TYPES
from groupd.coordinator.core.slices import chunks, run_through
from groupd.coordinator.core.types import EventKind
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import thread_cpu_s
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_state import count_states
from groupd.coordinator.runtime.stats import Durations

PREFIX = "kafka_server_group_coordinator_metrics_"
DEPRECATED_PREFIX = "kafka_coordinator_group_groupmetadatamanager_"
NOT_SERVED = "streams"
"""Kafka's group type that dashboards ask for and that groupd does not have."""

LOOP_CPU = "loop-cpu-s"
FLUSHES = "batch_flush"

SHARED_METERS = (
    Meter("offset_commit", EventKind.OFFSETS_COMMITTED, "Accepted commit records"),
    Meter("offset_expiration", EventKind.OFFSETS_EXPIRED, "Expired offsets"),
    Meter("offset_deletion", EventKind.OFFSETS_DELETED, "Offsets deleted on demand"),
)
"""Metrics over all group types together."""


def meters() -> list[tuple[Meter, str | None]]:
    """The meters that all group types share (with None), then those of each type, with its name."""
    shared: list[tuple[Meter, str | None]] = [(meter, None) for meter in SHARED_METERS]
    return shared + [(meter, one.name) for one in GROUP_TYPES for meter in one.meters]


def event_count(
    counts: Mapping[tuple[str, str], int], kind: EventKind, group_type: str | None = None
) -> int:
    """How many events of a kind there were in groups of the type `group_type`; None: in all
    groups."""
    if group_type is not None:
        return counts.get((group_type, kind), 0)
    return sum(count for (_, counted), count in counts.items() if counted == kind)


class GroupMetrics(Collector):
    """Collects plain counters. Each registry has its own instance, because rates remember earlier
    scrapes."""

    def __init__(self, broker: Broker, since: Beginning) -> None:
        self._broker = broker
        self._rates = Rates(since.monotonic_ms)
        self._cpu_start_s = since.cpu_s
        self._counted: GroupCounts | None = None

    async def prepare(self, work: LongWork) -> None:
        """Counts groups in slices, for the next `collect`."""
        self._counted = await work.run(count_steps(self._broker))

    def collect(self) -> Iterable[Metric]:
        yield from self._shards()
        yield from self._groups()
        yield from self._meters()
        yield from self._durations()

    def _shards(self) -> Iterable[Metric]:
        states = self._broker.served.states
        counts = count_states(states)
        yield labelled(PREFIX + "num_partitions", "Shards by state.", "state", counts)
        times = [shard.load_ms for shard in self._broker.shards] or [0]
        yield gauge(PREFIX + "partition_load_time_max", "Longest load of a shard, ms.", max(times))
        mean = sum(times) / max(len(states), 1)
        yield gauge(PREFIX + "partition_load_time_avg", "Mean load of a shard, ms.", mean)

    def _groups(self) -> Iterable[Metric]:
        counted, self._counted = self._counted or run_through(count_steps(self._broker)), None
        by_type = {one.name: dict.fromkeys(one.states, 0) for one in GROUP_TYPES}
        for (name, state), count in counted.by_state.items():
            states = by_type[name]
            states[state] = states.get(state, 0) + count
        totals = dict.fromkeys((*by_type, NOT_SERVED), 0)
        totals.update((name, sum(states.values())) for name, states in by_type.items())
        yield labelled(PREFIX + "group_count", "Groups by protocol.", "protocol", totals)
        for name, states in by_type.items():
            doc = f"{name.capitalize()} groups by state."
            yield labelled(f"{PREFIX}{name}_group_count", doc, "state", states)
        yield gauge(PREFIX + "offset_count", "Committed offsets.", counted.offsets)
        yield from deprecated(totals[CLASSIC.name], by_type[CLASSIC.name], counted.offsets)

    def _meters(self) -> Iterable[Metric]:
        events, each = self._broker.events.counts, meters()
        counts: dict[str, float] = {
            one.name: event_count(events, one.kind, group_type) for one, group_type in each
        }
        counts[FLUSHES] = self._broker.writer.stats.flushes
        counts[LOOP_CPU] = thread_cpu_s() - self._cpu_start_s
        rates = self._rates.look(self._broker.clock.now().monotonic_ms, counts)
        for one, _ in each:
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
    """Gauges of Kafka's older `GroupMetadataManager`, which knows only classic groups."""
    yield gauge(DEPRECATED_PREFIX + "numoffsets", "Committed offsets.", offsets)
    yield gauge(DEPRECATED_PREFIX + "numgroups", "Classic groups.", groups)
    for state in CLASSIC.states:
        name = f"{DEPRECATED_PREFIX}numgroups{state.lower()}"
        yield gauge(name, f"Classic groups in state {state}.", by_state[state])


GROUPS_PER_STEP = 500


class GroupCounts:
    """Counts of groups and offsets. `by_state`: the number of groups by (group type, state)."""

    __slots__ = ("by_state", "offsets")

    def __init__(self) -> None:
        self.by_state: Counter[tuple[str, str]] = Counter()
        self.offsets = 0


def count_steps(broker: Broker) -> Generator[None, None, GroupCounts]:
    """Counts the groups, and stops after every few hundred. Each group counts once, with the state
    that it has when it is reached. A group that is deleted meanwhile counts with its last state."""
    counts = GroupCounts()
    for shard in list(broker.shards):
        counts.offsets += shard.shard.offset_count()
        for groups in chunks(list(shard.shard.state.groups.values()), GROUPS_PER_STEP):
            counts.by_state.update((group.type_name, group.state_name()) for group in groups)
            if len(groups) == GROUPS_PER_STEP:
                yield
        yield
    return counts
