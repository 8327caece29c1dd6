"""What a worker says of itself through the admin port of the main process, and the metrics of all
processes as one page.

On that page every sample has the label `node`. Nothing is summed: a query can add counters over
`node`, and a quantile or a maximum could not be added anyway.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from groupd.coordinator.admin.collectors import LogCollector
from groupd.coordinator.admin.families import LazySamples
from groupd.coordinator.admin.groups import GroupRoutes
from groupd.coordinator.admin.http_server import BadRequest, HttpRequest, text
from groupd.coordinator.admin.lag_metrics import LagCollector
from groupd.coordinator.admin.metrics import make_registry
from groupd.coordinator.admin.offset_pages import OffsetPages
from groupd.coordinator.lag.ends import LogEnds
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.moves.mover import OffsetMover
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.clock import SystemClock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.security.audit import Audit
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.workers.messages import AdminAnswer, AdminQuestion, Family
from groupd.storage.log import PartitionLogs

NODE = "node"


class WorkerReports:
    def __init__(
        self,
        broker: Broker,
        connections: ConnectionStats,
        cleaner: Cleaner,
        stalls: LoopStalls,
        logs: PartitionLogs,
        ends: LogEnds,
    ) -> None:
        self._work = LongWork()
        self.watch = LagWatch(broker, ends, SystemClock(), self._work, broker.config)
        config, watch = broker.config, self.watch
        share = len(broker.shards) / config.offsets_topic_num_partitions
        series_max = int(config.metrics_lag_series_max * share)
        collectors = (
            lambda: LogCollector(cleaner, stalls),
            lambda: LagCollector(broker, watch, series_max),
        )
        self._registry = make_registry(broker, connections, None, collectors)
        mover = OffsetMover(broker, logs, ends, self._work, Audit())
        self._groups = GroupRoutes(broker, self._work, None, self.watch, mover)
        self._offsets = OffsetPages(broker, mover, self._work)

    async def metrics(self) -> list[Family]:
        await self._registry.prepare(self._work)
        return await self._work.run(family_steps(self._registry))

    async def admin(self, question: AdminQuestion) -> AdminAnswer:
        """The answer to a question about what is below `/groups` and `/events`."""
        request = HttpRequest(
            question.path,
            question.query,
            question.method,
            body=question.body,
            address=question.address,
            caller=question.caller,
        )
        if question.method == "POST":
            reply = await self._offsets.act(request)
            return AdminAnswer(reply.status, reply.content_type, reply.body, reply.headers)
        of_all = request.path[0] == "events"
        try:
            reply = await (self._groups.events(request) if of_all else self._groups(request))
        except BadRequest as error:
            reply = text(str(error), 400)
        return AdminAnswer(reply.status, reply.content_type, reply.body, reply.headers)


def family_steps(registry: Collector) -> Generator[None, None, list[Family]]:
    """All families, with stops."""
    families = []
    for family in registry.collect():
        samples = tuple((sample.name, sample.labels, sample.value) for sample in family.samples)
        families.append(Family(family.name, family.documentation, family.type, samples))
        yield
    return families


class MergedFamilies(Collector):
    """What `generate_latest` gets instead of a registry. `by_node`: families by node id."""

    def __init__(self, by_node: Mapping[int, Iterable[Family]]) -> None:
        self._by_node = by_node

    def collect(self) -> Iterator[Metric]:
        by_name: dict[str, list[tuple[int, Family]]] = {}
        for node_id, families in self._by_node.items():
            for family in families:
                by_name.setdefault(family.name, []).append((node_id, family))
        for name, parts in by_name.items():
            first = parts[0][1]
            merged = Metric(name, first.documentation, first.kind)
            merged.samples = LazySamples(partial(_samples, parts))
            yield merged


def _samples(parts: list[tuple[int, Family]]) -> Iterator[Sample]:
    """The samples of one family of all nodes."""
    for node_id, family in parts:
        for name, labels, value in family.samples:
            yield Sample(name, {NODE: str(node_id), **labels}, value)
