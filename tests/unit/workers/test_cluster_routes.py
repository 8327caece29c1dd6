"""The admin port of a daemon with workers, while one of them does not answer."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from msgspec import json

from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.admin_http import HttpRequest
from groupd.coordinator.workers.cluster_routes import ClusterRoutes
from groupd.coordinator.workers.messages import AdminAnswer, AdminQuestion, WorkerOperation
from groupd.storage.log import LogError


class Link:
    """A worker that has these groups; `error`: what becomes of a question instead."""

    def __init__(self, node_id: int, *groups: str) -> None:
        self.node_id = node_id
        self.error: Exception | None = None
        self._rows = [{"group_id": name} for name in groups]

    async def ask(self, operation: WorkerOperation, question: AdminQuestion) -> AdminAnswer:
        if self.error is not None:
            raise self.error
        return AdminAnswer(200, "application/json", json.encode(self._rows), ())


def routes(*links: Link) -> ClusterRoutes:
    cluster: Any = Mock(links=links, link_of=lambda group_id: links[0])
    return ClusterRoutes(cluster, 0, Mock(), lambda topic, number: None, LongWork())


async def test_the_list_names_the_workers_whose_groups_are_missing() -> None:
    first, second = Link(1, "a", "c"), Link(2, "b")
    listed = routes(first, second)
    reply = await listed.groups(HttpRequest(("groups",), {}))
    assert [row["group_id"] for row in json.decode(reply.body)] == ["a", "b", "c"]
    assert reply.headers == ()
    for error in (LogError("worker 2 is down"), TimeoutError()):
        second.error = error
        reply = await listed.groups(HttpRequest(("groups",), {}))
        assert [row["group_id"] for row in json.decode(reply.body)] == ["a", "c"]
        told = "the groups of worker 2, which did not answer"
        assert reply.headers == (("X-Missing", told),)


async def test_a_question_about_a_group_of_a_worker_that_does_not_answer_says_why() -> None:
    link = Link(1, "a")
    for error, why in (
        (LogError("worker 1 is down"), "worker 1 is down"),
        (TimeoutError(), "no answer in time"),
    ):
        link.error = error
        reply = await routes(link).groups(HttpRequest(("groups", "a", "lag"), {}))
        assert (reply.status, reply.body.decode()) == (503, f"worker 1 of group a: {why}\n")
