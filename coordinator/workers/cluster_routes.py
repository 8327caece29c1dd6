"""The admin port of a daemon with workers: it speaks for all of them.

Groups are asked of the worker that has them. Of a worker that is just away there are no metrics,
its groups are not in the list, and a question for one of them is answered 503.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from operator import itemgetter
from typing import Any, TypeVar

from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.server.admin_groups import EVENTS_SHOWN
from groupd.coordinator.server.admin_http import HttpReply, HttpRequest, as_json, text
from groupd.coordinator.server.families import labelled
from groupd.coordinator.server.group_lag import Ends, add_lag
from groupd.coordinator.server.scrapes import Scrapes
from groupd.coordinator.workers.cluster import Cluster
from groupd.coordinator.workers.link import WorkerLink, WorkerState
from groupd.coordinator.workers.messages import AdminAnswer, AdminQuestion, WorkerOperation
from groupd.coordinator.workers.reports import MergedFamilies, to_metrics
from groupd.storage.log import LogError

ANSWER_TIMEOUT_S = 5.0
OK = 200

T = TypeVar("T")


class ClusterCollector(Collector):
    """Metrics of the supervision itself."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def collect(self) -> Iterable[Metric]:
        states = dict.fromkeys((state.value for state in WorkerState), 0)
        restarts = CounterMetricFamily(
            "groupd_worker_restarts", "Workers that have ended.", labels=["worker"]
        )
        for link in self._cluster.links:
            states[link.state.value] += 1
            restarts.add_metric([str(link.node_id)], link.restarts)
        yield labelled("groupd_workers", "Workers by state.", "state", states)
        yield restarts


class ClusterRoutes:
    """`metrics`, `groups` and `events`, as routes of `AdminRoutes`. `ends`: of the logs, which the
    main process has."""

    def __init__(self, cluster: Cluster, node_id: int, scrapes: Scrapes, ends: Ends) -> None:
        self._ends = ends
        self._cluster = cluster
        self._node_id = node_id
        self._scrapes = scrapes
        scrapes.add(lambda: ClusterCollector(cluster))

    async def metrics(self, _: HttpRequest) -> HttpReply:
        async def ask(link: WorkerLink) -> list[Metric]:
            return to_metrics(await link.ask(WorkerOperation.METRICS))

        registry = await self._scrapes.prepared()
        by_node: dict[int, Iterable[Metric]] = {self._node_id: list(registry.collect())}
        for link, families in await self._all(ask):
            by_node[link.node_id] = families
        merged = MergedFamilies(by_node)
        return HttpReply(generate_latest(merged), CONTENT_TYPE_LATEST)

    async def groups(self, request: HttpRequest) -> HttpReply:
        match request.path:
            case (_,):
                return await self._list(request)
            case (_, group_id, *below):
                link = self._cluster.link_of(group_id)
                try:
                    async with asyncio.timeout(ANSWER_TIMEOUT_S):
                        answer = await _ask(link, request)
                except (LogError, TimeoutError) as error:
                    node_id = link.node_id
                    return text(f"worker {node_id} of group {group_id}: {error}", 503)
                if below == ["offsets"] and answer.status == OK:
                    shown = json.loads(answer.body)
                    add_lag(shown, self._ends)
                    return as_json(shown, compact=True)
                return HttpReply(answer.body, answer.content_type, answer.status)
            case _:
                return text("not found", 404)

    async def events(self, request: HttpRequest) -> HttpReply:
        """The last events of all groups, oldest first; each worker counts its own."""
        if len(request.path) > 1:
            return text("not found", 404)
        events = await self._lists(request)
        events.sort(key=itemgetter("timestamp_ms"))
        return as_json(events[-EVENTS_SHOWN:], compact=True)

    async def _list(self, request: HttpRequest) -> HttpReply:
        groups = await self._lists(request)
        groups.sort(key=itemgetter("group_id"))
        return as_json(groups, compact=True)

    async def _lists(self, request: HttpRequest) -> list[dict[str, Any]]:
        """What all workers answer to the same question, one list after the other."""

        async def ask(link: WorkerLink) -> list[dict[str, Any]]:
            items: list[dict[str, Any]] = json.loads((await _ask(link, request)).body)
            return items

        return [item for _, found in await self._all(ask) for item in found]

    async def _all(self, ask: Callable[[WorkerLink], Awaitable[T]]) -> list[tuple[WorkerLink, T]]:
        """The answers of those that give one in time."""

        async def one(link: WorkerLink) -> tuple[WorkerLink, T] | None:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    return link, await ask(link)
            except (LogError, TimeoutError):
                return None

        answers = await asyncio.gather(*(one(link) for link in self._cluster.links))
        return [answer for answer in answers if answer is not None]


async def _ask(link: WorkerLink, request: HttpRequest) -> AdminAnswer:
    question = AdminQuestion(tuple(request.path), dict(request.query))
    answer: AdminAnswer = await link.ask(WorkerOperation.ADMIN, question)
    return answer
