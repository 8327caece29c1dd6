"""What the admin port answers when a worker does not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.admin_http import HttpReply, HttpRequest
from groupd.coordinator.workers import cluster_routes
from groupd.coordinator.workers.cluster_routes import ClusterRoutes
from groupd.storage.log import LogError


def routes(ask: Any) -> ClusterRoutes:
    link = SimpleNamespace(node_id=3, ask=ask)
    cluster: Any = SimpleNamespace(links=[link], link_of=lambda group_id: link)
    scrapes: Any = SimpleNamespace(add=lambda collector: None)
    ends: Any = None
    return ClusterRoutes(cluster, 0, scrapes, ends, LongWork())


def told(reply: HttpReply) -> tuple[int, str]:
    return reply.status, reply.body.decode().strip()


async def silent(*_: Any) -> Any:
    await asyncio.Event().wait()


async def away(*_: Any) -> Any:
    raise LogError("worker 3 is down")


async def test_a_worker_that_does_not_answer_in_time_is_told_with_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_routes, "ANSWER_TIMEOUT_S", 0.001)
    monkeypatch.setattr(cluster_routes, "LOG_TIMEOUT_S", 0.002)
    asked = routes(silent).groups
    for page, limit in (("lag", "0.001"), ("offsets", "0.001"), ("moves", "0.002")):
        assert told(await asked(HttpRequest(("groups", "x", page), {}))) == (
            503,
            f"worker 3 of group x: no answer within {limit} s",
        )


async def test_a_worker_that_is_away_is_told() -> None:
    wanted = (503, "worker 3 of group x: worker 3 is down")
    reading = HttpRequest(("groups", "x", "lag"), {})
    assert told(await routes(away).groups(reading)) == wanted
    moving = HttpRequest(("groups", "x", "offsets", "reset"), {}, "POST")
    assert told(await routes(away).act(moving)) == wanted
