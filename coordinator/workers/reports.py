"""What a worker says of itself through the admin port of the main process, and the metrics of all
processes as one page.

On that page every sample has the label `node`. Nothing is summed: a query can add counters over
`node`, and a quantile or a maximum could not be added anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.admin_groups import GroupRoutes
from groupd.coordinator.server.admin_http import HttpRequest
from groupd.coordinator.server.collectors import LogCollector
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.metrics import make_registry
from groupd.coordinator.workers.messages import AdminAnswer, AdminQuestion, Family

NODE = "node"


class WorkerReports:
    def __init__(
        self,
        broker: Broker,
        connections: ConnectionStats,
        cleaner: Cleaner,
        stalls: LoopStalls,
    ) -> None:
        collectors = [lambda: LogCollector(cleaner, stalls)]
        self._registry = make_registry(broker, connections, None, collectors)
        self._groups = GroupRoutes(broker, None)

    async def metrics(self) -> list[Family]:
        await self._registry.prepare()
        return families_of(self._registry)

    async def admin(self, question: AdminQuestion) -> AdminAnswer:
        """What is below `/groups` and `/events`."""
        request = HttpRequest(question.path, question.query)
        of_all = request.path[0] == "events"
        reply = await (self._groups.events(request) if of_all else self._groups(request))
        return AdminAnswer(reply.status, reply.content_type, reply.body)


def families_of(registry: Collector) -> list[Family]:
    return [
        Family(
            family.name,
            family.documentation,
            family.type,
            tuple((sample.name, sample.labels, sample.value) for sample in family.samples),
        )
        for family in registry.collect()
    ]


def to_metrics(families: Iterable[Family]) -> list[Metric]:
    metrics = []
    for family in families:
        metric = Metric(family.name, family.documentation, family.kind)
        for name, labels, value in family.samples:
            metric.add_sample(name, labels, value)
        metrics.append(metric)
    return metrics


class MergedFamilies(Collector):
    """What `generate_latest` gets instead of a registry. `by_node`: families by node id."""

    def __init__(self, by_node: Mapping[int, Iterable[Metric]]) -> None:
        self._by_node = by_node

    def collect(self) -> Iterable[Metric]:
        merged: dict[str, Metric] = {}
        for node_id, families in self._by_node.items():
            for family in families:
                into = merged.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                for sample in family.samples:
                    labels = {NODE: str(node_id), **sample.labels}
                    into.add_sample(sample.name, labels, sample.value)
        return merged.values()
