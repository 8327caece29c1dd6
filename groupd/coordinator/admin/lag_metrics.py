"""The lag of groups as metrics, from the last round of `groupd.coordinator.lag.watch`.

Metrics of kafka_exporter have its names and labels, so its dashboards work; the others begin with
`groupd_` (docs/metrics.md#lag). There are at most `groupd.metrics.lag.series.max` series: first
those of whole groups, then of topics, then of partitions, and the groups with the most lag first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice

from msgspec import Struct, field
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from groupd.coordinator.admin.collectors import LazySamples, gauge
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.slices import Steps, chunks, run_through, sorted_in_steps
from groupd.coordinator.lag.growth import Found
from groupd.coordinator.lag.judgement import BAD
from groupd.coordinator.lag.watch import GroupLag, LagWatch, PartitionLag, Totals
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork

LEVELS = ("none", "group", "topic", "partition")
_OF_GROUP, _OF_TOPIC, _OF_PARTITION, _OF_LOG = 2, 2, 3, 2
"""The number of series of a group (twice that for a group that has committed something), of a
topic, of a partition, and of a log. A partition that is not ok has one more, and so has a topic
that some group reads."""

Labelled = tuple[dict[str, str], float]
"""The labels and the value."""

OfGroup = Callable[[str, Group], Labelled]
OfKnown = Callable[[str, GroupLag], Iterator[Labelled]]


class Watched(Struct):
    """The groups that have committed something, the most lag first: their ids, and for each its lag
    in the last round. (Pairs of both would be work for the garbage collector.)"""

    names: list[str] = field(default_factory=list)
    known: list[GroupLag] = field(default_factory=list)

    def first(self, count: int) -> Iterator[tuple[str, GroupLag]]:
        return islice(zip(self.names, self.known, strict=True), count)


class ShownPart(Struct):
    """The first `groups` groups are shown in some families, with `series` series in each family.
    Both are fixed before the samples are written, because a round may change the groups in
    between."""

    groups: int = 0
    series: int = 0

    def add(self, series: int) -> None:
        self.groups += 1
        self.series += series


class Shown(Struct):
    """What one scrape shows. `groups`: for how many groups members and state are shown. `watched`:
    the groups with their lag, the most lag first. What is shown of the first of these: `whole` (the
    judgement), `topics` (the lag by topic), `partitions` (the lag by partition) and `not_ok` (the
    partitions that are not ok). `bounds`: the ends of logs. `room`: how many more series there is
    room for. `left_out`: how many series are left out."""

    watched: Watched
    room: int
    groups: int = 0
    whole: ShownPart = field(default_factory=ShownPart)
    topics: ShownPart = field(default_factory=ShownPart)
    partitions: ShownPart = field(default_factory=ShownPart)
    not_ok: ShownPart = field(default_factory=ShownPart)
    bounds: Found = field(default_factory=dict)
    left_out: int = 0

    def take(self, series: int) -> bool:
        """Whether there is room for `series` more. If so, takes it; if not, takes all that is
        left."""
        if series > self.room or not self.room:
            self.left_out += series
            self.room = 0  # everything that comes later is less important
            return False
        self.room -= series
        return True

    def take_each(self, count: int, series: int) -> int:
        """How many of `count` items there is room for, if each has `series` series. Takes that
        room."""
        fit = min(count, self.room // series)
        self.room -= fit * series
        if fit < count:
            self.take((count - fit) * series)
        return fit


class LagCollector(Collector):
    """Collects the lag of groups. Call `prepare` before `collect`; without it, `collect` does
    everything at once. Samples are made when they are written, because all of them together would
    be work for the garbage collector. `series_max`: the most series of this process."""

    def __init__(self, broker: Broker, watch: LagWatch, series_max: int) -> None:
        self._broker = broker
        self._watch = watch
        self._series_max = series_max
        self._shown: Shown | None = None

    async def prepare(self, work: LongWork) -> None:
        self._shown = await work.run(self._choose())

    def collect(self) -> Iterable[Metric]:
        shown, self._shown = self._shown or run_through(self._choose()), None
        for name, doc, of_group in _OF_ALL_GROUPS:
            yield _lazily(name, doc, partial(self._of_groups, shown.groups, of_group))
        for families, part in (
            (_OF_WHOLE_GROUPS, shown.whole),
            (_OF_TOPICS, shown.topics),
            (_OF_PARTITIONS, shown.partitions),
            (_NOT_OK, shown.not_ok),
        ):
            for name, doc, of_known in families:
                yield _lazily(name, doc, partial(_of_watched, shown.watched, part, of_known))
        if shown.bounds:
            yield from self._logs(shown.bounds)
        watch = self._watch
        yield gauge("groupd_lag_series_left_out", "Series beyond the limit.", shown.left_out)
        yield gauge(
            "groupd_lag_partitions_left_out", "Partitions beyond the limit.", watch.left_out
        )
        yield gauge("groupd_lag_round_seconds", "Duration of a round.", watch.round_ms / 1000)
        yield gauge(
            "groupd_lag_round_timestamp_seconds",
            "Time of the last round, in seconds since 1970.",
            watch.round_at.wall_ms / 1000,
        )

    def _choose(self) -> Steps[Shown]:
        """Chooses what the next scrape shows within the limit."""
        watched = yield from self._watched()
        shown = Shown(watched, self._series_max)
        level = LEVELS.index(self._broker.config.metrics_lag)
        if level >= LEVELS.index("group"):
            count = sum(len(shard.shard.state.groups) for shard in self._broker.shards)
            shown.groups = shown.take_each(count, _OF_GROUP)
            whole = shown.take_each(len(watched.names), _OF_GROUP)
            shown.whole = ShownPart(whole, whole)
        if level >= LEVELS.index("topic"):
            for some in chunks(watched.known):
                for known in some:
                    count = len(known.topics)
                    if shown.take(_OF_TOPIC * count):
                        shown.topics.add(count)
                yield
        if level >= LEVELS.index("partition"):
            yield from self._choose_partitions(shown)
        return shown

    def _choose_partitions(self, shown: Shown) -> Steps[None]:
        for some in chunks(shown.watched.known):
            for known in some:
                count, not_ok = sum(map(len, known.topics.values())), known.totals.not_ok
                if shown.take(_OF_PARTITION * count + not_ok):
                    shown.partitions.add(count)
                    shown.not_ok.add(not_ok)
            yield
        bounds = self._watch.bounds
        if shown.take(len(bounds) + _OF_LOG * sum(map(len, bounds.values()))):
            shown.bounds = bounds

    def _watched(self) -> Steps[Watched]:
        """The groups with their lag in the last round, the most lag first."""
        groups, lags = self._watch.groups, dict[str, int]()
        for some in chunks(list(groups)):
            lags.update((name, -groups[name].totals.lag) for name in some if name in groups)
            yield
        order = yield from sorted_in_steps(lags, lags.__getitem__)
        watched = Watched()
        for names in chunks(order):
            present = [name for name in names if name in groups]
            watched.names += present
            watched.known += [groups[name] for name in present]
            yield
        return watched

    def _of_groups(self, most: int, of_group: OfGroup) -> Iterator[Labelled]:
        for shard in list(self._broker.shards):
            for group_id, group in list(shard.shard.state.groups.items()):
                if most <= 0:
                    return
                most -= 1
                yield of_group(group_id, group)

    def _logs(self, bounds: Found) -> Iterable[Metric]:
        known = self._broker.image.by_name

        def topics() -> Iterator[Labelled]:
            for topic in list(bounds):
                if topic in known:
                    yield {"topic": topic}, known[topic].partitions

        def ends(name: str) -> Iterator[Labelled]:
            for topic, partitions in list(bounds.items()):
                for number, one in list(partitions.items()):
                    yield {"topic": topic, "partition": str(number)}, getattr(one, name)

        yield _lazily("kafka_topic_partitions", "Partitions of a topic that groups read.", topics)
        for name, doc, which in (
            ("kafka_topic_partition_current_offset", "End of a partition.", "end"),
            ("kafka_topic_partition_oldest_offset", "Start of a partition.", "start"),
        ):
            yield _lazily(name, doc, partial(ends, which))


def _lazily(name: str, doc: str, samples: Callable[[], Iterator[Labelled]]) -> Metric:
    """A gauge whose samples are made while they are written."""

    def made() -> Iterator[Sample]:
        for labels, value in samples():
            yield Sample(name, labels, value)

    metric = Metric(name, doc, "gauge")
    metric.samples = LazySamples(made)
    return metric


def _of_watched(watched: Watched, part: ShownPart, of_known: OfKnown) -> Iterator[Labelled]:
    every = (of_known(group_id, known) for group_id, known in watched.first(part.groups))
    return islice(chain.from_iterable(every), part.series)


def _members(group_id: str, group: Group) -> Labelled:
    return {"consumergroup": group_id}, len(group.members)


def _state(group_id: str, group: Group) -> Labelled:
    labels = {"type": group.type_name, "state": group.state_name()}
    return {"consumergroup": group_id, **labels}, 1


_OF_ALL_GROUPS: tuple[tuple[str, str, OfGroup], ...] = (
    ("kafka_consumergroup_members", "Members of a group.", _members),
    ("groupd_consumergroup_state", "1 for the state of a group.", _state),
)


def _judgement(group_id: str, known: GroupLag) -> Iterator[Labelled]:
    judgement = known.totals.judgement
    if judgement is not None:
        yield {"consumergroup": group_id, "judgement": judgement.value}, 1


def _oldest(group_id: str, known: GroupLag) -> Iterator[Labelled]:
    value = _age_s(known.totals)
    if value is not None:
        yield {"consumergroup": group_id}, value


def _age_s(one: Totals | PartitionLag) -> float | None:
    """The age in seconds; 0 without lag. None: not known yet."""
    if not one.lag:
        return 0
    return None if one.age_ms is None else one.age_ms / 1000


_OF_WHOLE_GROUPS: tuple[tuple[str, str, OfKnown], ...] = (
    ("groupd_consumergroup_judgement", "1 for how a group does.", _judgement),
    (
        "groupd_consumergroup_lag_seconds_max",
        "Age of the oldest record that a group has not read.",
        _oldest,
    ),
)


def _sum_by_topic(name: str, group_id: str, known: GroupLag) -> Iterator[Labelled]:
    for topic, partitions in list(known.topics.items()):
        total = sum([getattr(one, name) for one in partitions.values()])
        yield {"consumergroup": group_id, "topic": topic}, total


_OF_TOPICS: tuple[tuple[str, str, OfKnown], ...] = (
    (
        "kafka_consumergroup_lag_sum",
        "Records that a group has not read.",
        partial(_sum_by_topic, "lag"),
    ),
    (
        "kafka_consumergroup_current_offset_sum",
        "Committed offsets, added.",
        partial(_sum_by_topic, "offset"),
    ),
)


def _by_partition(
    value: Callable[[PartitionLag], float | None], group_id: str, known: GroupLag
) -> Iterator[Labelled]:
    for (topic, number), one in known.partitions():
        found = value(one)
        if found is not None:
            yield {"consumergroup": group_id, "topic": topic, "partition": str(number)}, found


def _bad_partitions(group_id: str, known: GroupLag) -> Iterator[Labelled]:
    for (topic, number), one in known.partitions():
        if one.judgement in BAD:
            place = {"topic": topic, "partition": str(number)}
            yield {"consumergroup": group_id, **place, "judgement": one.judgement.value}, 1


_OF_PARTITIONS: tuple[tuple[str, str, OfKnown], ...] = (
    (
        "kafka_consumergroup_lag",
        "Records that a group has not read.",
        partial(_by_partition, lambda one: one.lag),
    ),
    (
        "kafka_consumergroup_current_offset",
        "Committed offset.",
        partial(_by_partition, lambda one: one.offset),
    ),
    (
        "groupd_consumergroup_lag_seconds",
        "Age of the first record that a group has not read.",
        partial(_by_partition, _age_s),
    ),
)

_NOT_OK: tuple[tuple[str, str, OfKnown], ...] = (
    (
        "groupd_consumergroup_partition_judgement",
        "1 for how a group does with a partition, where that is not ok.",
        _bad_partitions,
    ),
)
