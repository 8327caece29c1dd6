"""Connections that end are freed at once: in a serving process the collector looks at nothing that
was there when it last did (`coordinator.runtime.collector`)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.coordinator.server.connection import Connection
from tests.bench.frames import consumer_heartbeat, offset_commit, offset_fetch
from tests.unit.server.test_stored_replies import TOPIC, Peer

REQUESTS = {
    "nothing": [],
    "heartbeats": [
        consumer_heartbeat("g", "m0", 0, (TOPIC,), ()),
        *[consumer_heartbeat("g", "m0", 2)] * 5,
        consumer_heartbeat("g", "m0", -1),
    ],
    "commits": [offset_commit("simple", TOPIC, 3, offset) for offset in range(5)],
    "a fetch": [offset_fetch("simple", TOPIC, 3)],
}


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def connections() -> int:
    return sum(isinstance(one, Connection) for one in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize("what", REQUESTS)
@pytest.mark.usefixtures("without_collector")
async def test_nothing_is_left_of_a_connection(tmp_path: Path, what: str) -> None:
    before = connections()
    for _ in range(3):
        async with Peer(tmp_path, steady=True) as peer:
            for number, frame in enumerate(REQUESTS[what]):
                await peer.ask(frame, number)
            assert connections() == before + 1
        async with asyncio.timeout(10):
            while connections() > before:
                await asyncio.sleep(0)
