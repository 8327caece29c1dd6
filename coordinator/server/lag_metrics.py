"""The lag of groups as metrics, from the last round of `groupd.coordinator.lag.watch`.

What kafka_exporter has is shown under its names and labels, so its dashboards work; the rest
begins with `groupd_` (docs/metrics.md#lag). There are at most `groupd.metrics.lag.series.max`
series: first those of whole groups, then of topics, then of partitions, the groups with the most
lag first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.slices import Steps, Work, chunks, run_through, sorted_in_steps
from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.watch import GroupLag, LagWatch
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.coordinator.server.families import gauge

GROUP, TOPIC, PARTITION = ["consumergroup"], ["topic"], ["partition"]
LEVELS = ("none", "group", "topic", "partition")

FAMILIES: dict[str, tuple[str, list[str]]] = {
    "kafka_consumergroup_members": ("Members of a group.", GROUP),
    "groupd_consumergroup_state": ("1 for the state of a group.", [*GROUP, "type", "state"]),
    "groupd_consumergroup_judgement": ("1 for how a group does.", [*GROUP, "judgement"]),
    "groupd_consumergroup_lag_seconds_max": (
        "Age of the oldest record that a group has not read.",
        GROUP,
    ),
    "kafka_consumergroup_lag_sum": ("Records that a group has not read.", GROUP + TOPIC),
    "kafka_consumergroup_current_offset_sum": ("Committed offsets, added.", GROUP + TOPIC),
    "kafka_topic_partitions": ("Partitions of a topic that groups read.", TOPIC),
    "kafka_consumergroup_lag": ("Records that a group has not read.", GROUP + TOPIC + PARTITION),
    "kafka_consumergroup_current_offset": ("Committed offset.", GROUP + TOPIC + PARTITION),
    "groupd_consumergroup_lag_seconds": (
        "Age of the first record that a group has not read.",
        GROUP + TOPIC + PARTITION,
    ),
    "groupd_consumergroup_partition_judgement": (
        "1 for how a group does with a partition, where that is not ok.",
        [*GROUP, *TOPIC, *PARTITION, "judgement"],
    ),
    "kafka_topic_partition_current_offset": ("End of a partition.", TOPIC + PARTITION),
    "kafka_topic_partition_oldest_offset": ("Start of a partition.", TOPIC + PARTITION),
}
"""Help and labels by name."""

Sample = tuple[str, tuple[str, ...], float]
"""Name, values of the labels, value."""

Part = tuple[int, Callable[[], Iterator[Sample | None]]]
"""About how many samples, and what makes them. None among them is a point where other work may
run."""


class LagCollector(Collector):
    """Call `prepare` before `collect`; without it, `collect` does everything at once.
    `series_max`: the share of this process."""

    def __init__(self, broker: Broker, watch: LagWatch, series_max: int) -> None:
        self._broker = broker
        self._watch = watch
        self._series_max = series_max
        self._families: list[GaugeMetricFamily] | None = None
        self._left_out = 0

    async def prepare(self, work: LongWork) -> None:
        self._families = await work.run(self._make())

    def collect(self) -> Iterable[Metric]:
        made, self._families = self._families, None
        yield from run_through(self._make()) if made is None else made
        watch = self._watch
        yield gauge("groupd_lag_series_left_out", "Series that are too many.", self._left_out)
        yield gauge(
            "groupd_lag_partitions_left_out", "Partitions that are not watched.", watch.left_out
        )
        yield gauge("groupd_lag_round_seconds", "Duration of a round.", watch.round_ms / 1000)

    def _make(self) -> Steps[list[GaugeMetricFamily]]:
        families = {
            name: GaugeMetricFamily(name, doc, labels=labels)
            for name, (doc, labels) in FAMILIES.items()
        }
        room, left_out, work = self._series_max, 0, Work()
        parts = yield from self._parts(LEVELS.index(self._broker.config.metrics_lag))
        for count, samples in parts:
            if count > room:
                left_out += count
                continue
            for sample in samples():
                if sample is not None:
                    name, labels, value = sample
                    families[name].add_metric(labels, value)
                    room -= 1
                if work.enough(_COST):
                    yield
            if work.enough():
                yield
        self._left_out = left_out
        return [family for family in families.values() if family.samples]

    def _parts(self, level: int) -> Steps[list[Part]]:
        """What there is to show, the most important first."""
        groups = self._watch.groups
        by_lag = ((-known.totals.lag, group_id) for group_id, known in list(groups.items()))
        order = yield from sorted_in_steps(by_lag)
        watched = [(group_id, known) for _, group_id in order if (known := groups.get(group_id))]
        parts: list[Part] = []
        if level >= LEVELS.index("group"):
            for group_id, known in watched:
                parts.append((4, partial(_of_group, group_id, known, self._group(group_id))))
            yield
            yield from self._not_watched(parts)
        if level >= LEVELS.index("topic"):
            for group_id, known in watched:
                parts.append((2 * len(known.topics), partial(_of_topics, group_id, known)))
            parts.append((len(self._watch.bounds), self._topics))
            yield
        if level >= LEVELS.index("partition"):
            for group_id, known in watched:
                count = 3 * sum(map(len, known.topics.values()))
                parts.append((count, partial(_of_partitions, group_id, known)))
            yield
            count = 2 * sum(map(len, self._watch.bounds.values()))
            parts.append((count, self._partitions))
        return parts

    def _group(self, group_id: str) -> Group | None:
        shard = self._broker.shard_of(group_id)
        return shard.shard.state.groups.get(group_id) if isinstance(shard, ShardRuntime) else None

    def _not_watched(self, parts: list[Part]) -> Steps[None]:
        """Groups that have committed nothing."""
        for shard in self._broker.shards:
            for group_id, group in list(shard.shard.state.groups.items()):
                if group_id not in self._watch.groups:
                    parts.append((2, partial(_of_group, group_id, None, group)))
            yield

    def _topics(self) -> Iterator[Sample]:
        known = self._broker.image.by_name
        for topic in self._watch.bounds:
            if topic in known:
                yield "kafka_topic_partitions", (topic,), known[topic].partitions

    def _partitions(self) -> Iterator[Sample]:
        for topic, partitions in self._watch.bounds.items():
            for number, bounds in partitions.items():
                labels = (topic, str(number))
                yield "kafka_topic_partition_current_offset", labels, bounds.end
                yield "kafka_topic_partition_oldest_offset", labels, bounds.start


_COST = 16
"""What a sample counts as in `Work`."""


def _of_group(group_id: str, known: GroupLag | None, group: Group | None) -> Iterator[Sample]:
    if group is not None:
        yield "kafka_consumergroup_members", (group_id,), len(group.members)
        state = (group_id, group.type_name, group.state_name())
        yield "groupd_consumergroup_state", state, 1
    if known is not None:
        judgement = (group_id, known.totals.judgement.value)
        yield "groupd_consumergroup_judgement", judgement, 1
        age_s = (known.totals.age_ms or 0) / 1000
        yield "groupd_consumergroup_lag_seconds_max", (group_id,), age_s


def _of_topics(group_id: str, known: GroupLag) -> Iterator[Sample | None]:
    for topic, partitions in known.topics.items():
        lag = offsets = 0
        for some in chunks(list(partitions.values())):
            lag += sum(one.lag for one in some)
            offsets += sum(one.offset for one in some)
            yield None
        yield "kafka_consumergroup_lag_sum", (group_id, topic), lag
        yield "kafka_consumergroup_current_offset_sum", (group_id, topic), offsets


def _of_partitions(group_id: str, known: GroupLag) -> Iterator[Sample]:
    for (topic, number), one in known.partitions():
        labels = (group_id, topic, str(number))
        yield "kafka_consumergroup_lag", labels, one.lag
        yield "kafka_consumergroup_current_offset", labels, one.offset
        yield "groupd_consumergroup_lag_seconds", labels, (one.age_ms or 0) / 1000
        if one.judgement is not Judgement.OK:
            bad = (*labels, one.judgement.value)
            yield "groupd_consumergroup_partition_judgement", bad, 1
