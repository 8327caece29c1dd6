"""`/metrics`: one scrape at a time, and the page in parts is the page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import patch

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import SAMPLES_PER_STEP, text_steps
from groupd.coordinator.admin.http_messages import HttpReply, HttpRequest, text
from groupd.coordinator.admin.scrapes import Scrapes
from groupd.coordinator.cli.groups.listing import join_members
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.runtime.long_work import LongWork
from tests.unit.runtime.harness import Bench


class Families(Collector):
    def collect(self) -> Iterator[Metric]:
        counter = CounterMetricFamily("requests", "Requests.\nTwo lines.", labels=["api"])
        for number in range(3 * SAMPLES_PER_STEP):
            counter.add_metric([f"#{number}"], number)
        yield counter
        yield GaugeMetricFamily("none", "Without samples.", labels=["x"])


async def test_scrapes_at_the_same_time_share_one() -> None:
    bench = await Bench().start()
    none = cast("Any", None)
    scrapes = Scrapes(bench.broker, none, none, list, LongWork())
    release = asyncio.Event()
    count = 0

    async def scrape() -> HttpReply:
        nonlocal count
        count += 1
        await release.wait()
        return text(f"scrape {count}")

    request = HttpRequest(("metrics",), {})
    with patch.object(scrapes, "_page", scrape):
        first, gone, second = (asyncio.ensure_future(scrapes.page(request)) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
        release.set()
        assert [(await one).body for one in (first, second)] == [b"scrape 1\n"] * 2
        assert gone.cancelled()
        assert (await scrapes.page(request)).body == b"scrape 2\n"


def test_a_long_family_is_written_in_parts_with_one_head() -> None:
    registry = CollectorRegistry()
    registry.register(Families())
    assert run_through(text_steps(registry)) == generate_latest(registry)
    assert sum(1 for _ in text_steps(registry)) == 3 + 1


def test_a_member_on_two_pages_is_one() -> None:
    def page(partitions: int, lag: int | None, last_ms: int | None) -> dict[str, Any]:
        member = {
            "member_id": "m",
            "partitions": partitions,
            "lag": lag,
            "last_commit_ms": last_ms,
        }
        return {"now_ms": 100, "members": [member]}

    members: dict[str, dict[str, Any]] = {}
    for one in (page(1, None, None), page(2, 3, 40), page(3, 4, 20)):
        join_members(members, one)
    assert members["m"]["partitions"] == 6
    assert (members["m"]["lag"], members["m"]["last_commit_ms"]) == (7, 40)
