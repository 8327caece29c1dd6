"""The admin port of a daemon with workers, while one of them does not answer."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import json

from groupd.coordinator.admin.http_server import HttpReply, HttpRequest
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.workers import cluster_routes
from groupd.coordinator.workers.cluster_routes import ClusterRoutes
from groupd.coordinator.workers.messages import AdminAnswer, AdminQuestion, WorkerOperation
from groupd.storage.log import LogError


class Link:
    """A worker that has these groups; `error`: what becomes of a question instead; `silent`: it
    never answers."""

    def __init__(self, node_id: int, *groups: str) -> None:
        self.node_id = node_id
        self.error: Exception | None = None
        self.silent = False
        self._rows = [{"group_id": name} for name in groups]

    async def ask(self, operation: WorkerOperation, question: AdminQuestion) -> AdminAnswer:
        if self.silent:
            await asyncio.Event().wait()
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


def told(reply: HttpReply) -> tuple[int, str]:
    return reply.status, reply.body.decode().strip()


async def test_a_worker_that_does_not_answer_in_time_is_told_with_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_routes, "ANSWER_TIMEOUT_S", 0.001)
    monkeypatch.setattr(cluster_routes, "LOG_TIMEOUT_S", 0.002)
    link = Link(3, "x")
    link.silent = True
    asked = routes(link).groups
    for page, limit in (("lag", "0.001"), ("offsets", "0.001"), ("moves", "0.002")):
        assert told(await asked(HttpRequest(("groups", "x", page), {}))) == (
            503,
            f"worker 3 of group x: no answer within {limit} s",
        )


async def test_a_worker_that_is_away_is_told() -> None:
    link = Link(3, "x")
    link.error = LogError("worker 3 is down")
    wanted = (503, "worker 3 of group x: worker 3 is down")
    reading = HttpRequest(("groups", "x", "lag"), {})
    assert told(await routes(link).groups(reading)) == wanted
    moving = HttpRequest(("groups", "x", "offsets", "reset"), {}, "POST")
    assert told(await routes(link).act(moving)) == wanted
