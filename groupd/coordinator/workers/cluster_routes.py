"""The admin port of a daemon with workers: it speaks for all of them.

Groups are asked of the worker that has them. While a worker is away, its metrics are
missing, its groups are not in the list, which names the worker in its header `X-Missing`, and a
question for one of them is answered 503.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from heapq import heapify, heappop, heapreplace
from operator import itemgetter
from typing import Any, TypeVar

from msgspec import json
from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.families import labelled
from groupd.coordinator.admin.groups import (
    EVENTS_SHOWN,
    offsets_page,
    paged,
    partition_name,
    partition_of,
    plain,
)
from groupd.coordinator.admin.http_server import HttpReply, HttpRequest, text
from groupd.coordinator.admin.long_json import json_steps
from groupd.coordinator.admin.paging import MISSING, window
from groupd.coordinator.admin.scrapes import Scrapes
from groupd.coordinator.core.slices import Work
from groupd.coordinator.lag.rows import Ends, add_lag, join_members
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.workers.cluster import Cluster
from groupd.coordinator.workers.link import WorkerLink, WorkerState
from groupd.coordinator.workers.messages import (
    AdminAnswer,
    AdminQuestion,
    Family,
    WorkerOperation,
)
from groupd.coordinator.workers.reports import MergedFamilies, family_steps
from groupd.storage.log import LogError

ROWS_AT_ONCE = 500
"""Groups that are asked of a worker at once; its answer is read in one go."""
ANSWER_TIMEOUT_S = 5.0
LOG_TIMEOUT_S = 30.0
"""For a page for which the worker reads the log of a shard."""
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
    """`metrics`, `groups` and `events`, as routes of `AdminRoutes`. `ends`: those of the logs,
    which the main process has. `work`: makes long pages."""

    def __init__(
        self, cluster: Cluster, node_id: int, scrapes: Scrapes, ends: Ends, work: LongWork
    ) -> None:
        self._ends = ends
        self._cluster = cluster
        self._node_id = node_id
        self._scrapes = scrapes
        self._work = work
        scrapes.add(lambda: ClusterCollector(cluster))

    async def metrics(self, _: HttpRequest) -> HttpReply:
        return await self._scrapes.shared(self._metrics)

    async def _metrics(self) -> HttpReply:
        async def ask(link: WorkerLink) -> list[Family]:
            families: list[Family] = await link.ask(WorkerOperation.METRICS)
            return families

        registry = await self._scrapes.prepared()
        by_node = {self._node_id: await self._work.run(family_steps(registry))}
        for link, families in await self._all(ask):
            by_node[link.node_id] = families
        return await self._scrapes.exposed(MergedFamilies(by_node))

    async def groups(self, request: HttpRequest) -> HttpReply:
        match request.path:
            case (_,):
                return await self._list(request)
            case (_, group_id, *below):
                link = self._cluster.link_of(group_id)
                try:
                    if below == ["offsets"]:
                        return await self._offsets(link, request)
                    window(request)  # here, because a refusal has its own status
                    return _reply(await _ask(link, request.path, request.query))
                except (LogError, TimeoutError) as error:
                    return text(f"worker {link.node_id} of group {group_id}: {error}", 503)
            case _:
                return text("not found", 404)

    async def act(self, request: HttpRequest) -> HttpReply:
        """A POST below `/groups`: the worker that has the group carries it out."""
        if len(request.path) < 2:
            return text("not found", 404)
        link = self._cluster.link_of(request.path[1])
        question = AdminQuestion(
            request.path,
            request.query,
            request.method,
            request.body,
            request.address,
            request.caller,
        )
        try:
            return _reply(await link.ask(WorkerOperation.ADMIN, question))
        except LogError as error:
            return text(f"worker {link.node_id} of group {request.path[1]}: {error}", 503)

    async def events(self, request: HttpRequest) -> HttpReply:
        """The last events of all groups, oldest first; each worker counts its own."""
        if len(request.path) > 1:
            return text("not found", 404)

        async def ask(link: WorkerLink) -> list[dict[str, Any]]:
            answer = await _ask(link, request.path, {})
            events: list[dict[str, Any]] = json.decode(answer.body)
            return events

        events = [event for _, found in await self._all(ask) for event in found]
        events.sort(key=itemgetter("timestamp_ms"))
        return await self._work.run(plain(events[-EVENTS_SHOWN:]))

    async def _list(self, request: HttpRequest) -> HttpReply:
        """The groups of all workers by id, each worker asked for some at a time."""
        wanted = window(request)
        sources = [_Groups(link, request, wanted.after) for link in self._cluster.links]
        await asyncio.gather(*(source.fetch() for source in sources))
        heads = [(source.first, index) for index, source in enumerate(sources) if source.rows]
        heapify(heads)
        groups: list[dict[str, Any]] = []
        work = Work()
        while heads and len(groups) <= wanted.limit:
            source = sources[heads[0][1]]
            groups.append(source.rows.popleft())
            if not source.rows:
                await source.fetch()
            elif work.enough():
                await asyncio.sleep(0)
            if source.rows:
                heapreplace(heads, (source.first, heads[0][1]))
            else:
                heappop(heads)
        page = await self._work.run(json_steps(groups, wanted.limit))
        reply = paged(request, wanted, page, "group_id", "")
        missing = [str(source.node_id) for source in sources if source.failed]
        if not missing:
            return reply
        told = f"the groups of worker {' and '.join(missing)}, which did not answer"
        return replace(reply, headers=(*reply.headers, (MISSING, told)))

    async def _offsets(self, link: WorkerLink, request: HttpRequest) -> HttpReply:
        """A page made of the worker's pages, asked for one after the other, with the lag. Raises
        LogError, TimeoutError."""
        wanted = window(request)
        after = wanted.after
        if after is not None:
            partition_of(after)
        rows: list[dict[str, Any]] = []
        members: dict[str, dict[str, Any]] = {}
        while True:
            limit = min(ROWS_AT_ONCE, wanted.limit - len(rows))
            answer = await _ask(link, request.path, _query(request, after, limit))
            if answer.status != OK:
                return _reply(answer)
            shown = json.decode(answer.body)
            await self._work.run(add_lag(shown, self._ends))
            found, more = shown["partitions"], bool(answer.headers)
            rows += found
            join_members(members, shown)
            if not found or not more or len(rows) >= wanted.limit:
                break
            after = partition_name(found[-1])
        shown["partitions"] = rows
        shown["members"] = [members[member_id] for member_id in sorted(members)]
        return await self._work.run(offsets_page(request, wanted, shown, more))

    async def _all(self, ask: Callable[[WorkerLink], Awaitable[T]]) -> list[tuple[WorkerLink, T]]:
        """The answers of the workers that give one in time."""

        async def one(link: WorkerLink) -> tuple[WorkerLink, T] | None:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    return link, await ask(link)
            except (LogError, TimeoutError):
                return None

        answers = await asyncio.gather(*(one(link) for link in self._cluster.links))
        return [answer for answer in answers if answer is not None]


class _Groups:
    """The groups of one worker. `rows`: those that it has sent and that are not on the page yet.
    `failed`: it did not answer, so that there may be more."""

    def __init__(self, link: WorkerLink, request: HttpRequest, after: str | None) -> None:
        self.rows: deque[dict[str, Any]] = deque()
        self.failed = False
        self.node_id = link.node_id
        self._link = link
        self._request = request
        self._after = after
        self._more = True

    @property
    def first(self) -> str:
        group_id: str = self.rows[0]["group_id"]
        return group_id

    async def fetch(self) -> None:
        """Asks for more rows. Afterwards there are none if there are no more, or if the worker is
        away."""
        if not self._more:
            return
        try:
            query = _query(self._request, self._after, ROWS_AT_ONCE)
            answer = await _ask(self._link, ("groups",), query)
        except (LogError, TimeoutError):
            self._more, self.failed = False, True
            return
        self.rows.extend(json.decode(answer.body))
        self._more = bool(answer.headers)
        if self.rows:
            self._after = self.rows[-1]["group_id"]


def _query(request: HttpRequest, after: str | None, limit: int) -> dict[str, str]:
    """The question for a worker: that of the client, for another part of the list."""
    query = {**request.query, "limit": str(limit)}
    query.pop("after", None)
    return query if after is None else {**query, "after": after}


def _reply(answer: AdminAnswer) -> HttpReply:
    return HttpReply(answer.body, answer.content_type, answer.status, answer.headers)


async def _ask(link: WorkerLink, path: tuple[str, ...], query: dict[str, str]) -> AdminAnswer:
    """Raises LogError, TimeoutError."""
    most_s = LOG_TIMEOUT_S if path[2:] == ("moves",) else ANSWER_TIMEOUT_S
    try:
        async with asyncio.timeout(most_s):
            answer: AdminAnswer = await link.ask(
                WorkerOperation.ADMIN, AdminQuestion(tuple(path), dict(query))
            )
    except TimeoutError:
        raise TimeoutError(f"no answer within {most_s:g} s") from None
    return answer
