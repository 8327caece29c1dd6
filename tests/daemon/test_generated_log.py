"""A generated log is one that a daemon serves: its groups are there, with the offsets it says."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path

from groupd.pipeline.generator.command import UNTIL_MS, generate
from groupd.pipeline.generator.demo import demo_world
from groupd.pipeline.generator.sinks import StoreSink
from groupd.storage.open import create_store
from tests.support.admin import committed, end_offsets
from tests.support.daemon import Daemon

FOR_EVER = {"offsets.retention.minutes": "5256000", "groupd.history.retention.ms": "-1"}


async def fill(directory: Path) -> None:
    directory.mkdir()
    store = create_store(None, directory)
    await store.start()
    try:
        world, plans = demo_world(UNTIL_MS)
        await generate(world, plans, StoreSink(store))
    finally:
        await store.close()


def test_a_daemon_serves_the_demo_log(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings=FOR_EVER)
    asyncio.run(fill(daemon.data_dir))
    daemon.start(timeout_s=90)
    try:
        with urllib.request.urlopen(f"{daemon.admin_url}/groups", timeout=30) as reply:
            shown = json.load(reply)
        groups = shown["groups"] if isinstance(shown, dict) else shown
        names = {group.get("group_id") or group.get("group") for group in groups}
        assert names == {"checkout", "recommendations", "invoicing", "warehouse-sync", "ledger"}
        topics = {"invoices": 8, "stock": 6}
        ends = end_offsets(daemon.bootstrap, topics)
        for group, topic in (("invoicing", "invoices"), ("warehouse-sync", "stock")):
            offsets = committed(daemon.bootstrap, group, {topic: topics[topic]})
            lags = [ends[topic, number] - offsets[topic, number] for number in range(topics[topic])]
            assert min(lags) >= 0
            # Only the stuck partition is far behind.
            far = [number for number, lag in enumerate(lags) if lag > 10_000]
            assert far == ([5] if group == "invoicing" else [])
        daemon.stop()
    finally:
        daemon.close()
