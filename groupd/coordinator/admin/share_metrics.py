"""The leaders of share-partitions as metrics (docs/spec/share-group.md#7): sessions, requests,
acknowledgements, dead letters, and how many records of each share-partition are in flight.

Kafka's metrics have the names that its JMX exporter gives them. The metrics that have a group and a
partition as labels follow `groupd.metrics.lag` and `groupd.metrics.lag.series.max`, as those of the
lag do: the share-partitions with the most records in flight come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from groupd.coordinator.admin.collectors import LazySamples, gauge, total, totals
from groupd.coordinator.core.slices import Steps, chunks, run_through, sorted_in_steps
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.share_partitions.runs import DeliveryEnd
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.share_partitions.share_requests import ShareRequests
from groupd.protocol.messages.share_fetch import ACCEPT, REJECT, RELEASE, RENEW

_KAFKA = "kafka_server_"
_OF_PARTITION = _KAFKA + "sharepartitionmetrics_"
_TYPES = {ACCEPT: "Accept", RELEASE: "Release", REJECT: "Reject", RENEW: "Renew"}
"""Gaps are no acknowledgements of records, so Kafka does not count them either."""

_START = "groupd_share_start_offset"
_TIMEOUTS = _OF_PARTITION + "acquisitionlocktimeout"
_REQUESTS = _KAFKA + "brokertopicmetrics_"
_LETTERS = _KAFKA + "sharegroupmetrics_deadletterqueue"
_EVICTIONS = _KAFKA + "sharesessioncache_sharesessionevictions"
_EXPIRED = _KAFKA + "delayedsharefetchmetrics_expires"
_FAILED_ACKS = _REQUESTS + "failedshareacknowledgementrequests"
_ACKS = _REQUESTS + "totalshareacknowledgementrequests"
_FAILED = "Those with an error for some partition."
_COUNTS = (
    (_REQUESTS + "totalsharefetchrequests", "ShareFetch requests.", "fetch_requests"),
    (_REQUESTS + "failedsharefetchrequests", _FAILED, "failed_fetch_requests"),
    (_ACKS, "ShareAcknowledge requests.", "acknowledge_requests"),
    (_FAILED_ACKS, _FAILED, "failed_acknowledge_requests"),
    (_EXPIRED, "ShareFetch requests that waited to the end.", "polls_expired"),
    (_LETTERS + "recordcount", "Copied dead letters.", "dead_letters"),
    (_LETTERS + "totalproducerequests", "Attempts to copy them.", "dead_letter_requests"),
    (_LETTERS + "failedproducerequests", "Copies given up.", "failed_dead_letter_requests"),
    (_EVICTIONS, "Sessions that ended with their connection.", "sessions_evicted"),
    ("groupd_share_dead_letters_lost", "Records without a whole copy.", "dead_letters_lost"),
    ("groupd_share_lock_timeouts", "Records whose lock timed out.", "lock_timeouts"),
    ("groupd_share_loads", "Share-partitions loaded.", "loads"),
)
"""Names of counters, and the fields of `ShareCounts`."""

_FAMILIES = (
    (_OF_PARTITION + "inflightmessagecount", "Offsets in flight.", "gauge", "records.in_flight"),
    (_START, "Offset before which everything is over.", "gauge", "records.start_offset"),
    (_TIMEOUTS, "Records whose lock timed out.", "counter", "lock_timeouts"),
)
"""Names of the metrics with a partition as a label, and the attribute of a share-partition."""


class ShareRequestsMetrics(Collector):
    """Collects plain counters. `series_max`: the most series with a partition as a label."""

    def __init__(self, shares: ShareRequests, broker: Broker, series_max: int) -> None:
        self._shares = shares
        self._broker = broker
        self._most = series_max // len(_FAMILIES)
        self._chosen: list[SharePartition] | None = None
        self._left_out = 0

    async def prepare(self, work: LongWork) -> None:
        """Chooses the share-partitions in slices, for the next `collect`."""
        self._chosen = await work.run(self._choose())

    def _choose(self) -> Steps[list[SharePartition]]:
        """The loaded share-partitions with the most records in flight."""
        found: list[SharePartition] = []
        self._left_out = 0
        if self._broker.config.metrics_lag != "partition":
            return found
        loaded: list[SharePartition] = []
        sizes = []
        for some in chunks(self._shares.leaders.all()):
            for share in some:
                if share.records is not None:
                    sizes.append((-share.records.in_flight, len(loaded)))
                    loaded.append(share)
            yield
        order = yield from sorted_in_steps(sizes)
        self._left_out = max(0, len(loaded) - self._most)
        for places in chunks(order):
            found += [loaded[at] for _, at in places][: self._most - len(found)]
            if len(found) >= self._most:
                break
            yield
        return found

    def collect(self) -> Iterable[Metric]:
        counts, sessions = self._shares.counts, self._shares.sessions
        for name, doc, field in _COUNTS:
            yield total(name, doc, getattr(counts, field))
        by_type = {(name,): counts.acknowledged[kind] for kind, name in _TYPES.items()}
        doc = "Acknowledged records by type."
        name = _KAFKA + "sharegroupmetrics_recordacknowledgements"
        yield totals(name, doc, ["acktype"], by_type)
        ends = {(end.value.replace(" ", "_"),): counts.archived[end] for end in DeliveryEnd}
        ends[DeliveryEnd.ACCEPTED.value,] = counts.accepted
        doc = "Records that are not delivered any more, by the reason."
        yield totals("groupd_share_records_finished", doc, ["end"], ends)
        doc = "How long that took together."
        yield total("groupd_share_load_seconds", doc, counts.load_ms / 1000)
        prefix = _KAFKA + "sharesessioncache_"
        yield gauge(prefix + "sharesessionscount", "Open share sessions.", len(sessions))
        doc = "Partitions in share sessions."
        yield gauge(prefix + "sharepartitionscount", doc, sessions.partitions)
        yield from self._partitions()

    def _partitions(self) -> Iterable[Metric]:
        leaders = self._shares.leaders
        yield gauge("groupd_share_partitions_led", "Share-partitions led here.", len(leaders))
        chosen, self._chosen = self._chosen, None
        if chosen is None:
            chosen = run_through(self._choose())
        for name, doc, kind, attribute in _FAMILIES:
            metric = Metric(name, doc, kind)
            value = attrgetter(attribute)
            metric.samples = LazySamples(partial(self._samples, metric, chosen, value))
            yield metric
        left_out = len(_FAMILIES) * self._left_out
        yield gauge("groupd_share_series_left_out", "Series beyond the limit.", left_out)

    def _samples(
        self, metric: Metric, chosen: list[SharePartition], value: Callable[[Any], float]
    ) -> Iterator[Sample]:
        topics = self._broker.image.by_id
        label = "group" if metric.name.startswith(_OF_PARTITION) else "consumergroup"
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        for share in chosen:
            log = share.partition
            if log.topic_id in topics and share.records is not None:
                place = {"topic": topics[log.topic_id].name, "partition": str(log.partition)}
                yield Sample(name, {label: share.group_id, **place}, value(share))
