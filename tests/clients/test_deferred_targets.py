"""Real consumers in groups whose targets are computed between requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.support.daemon import Daemon
from tests.support.peer import FAST_SETTINGS, running
from tests.support.process import wait_until

PARTITIONS = 12


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(
        Daemon(
            tmp_path / "daemon",
            topics={"alpha": PARTITIONS},
            settings={**FAST_SETTINGS, "consumer_large_group_size": "0"},
        )
    ) as made:
        yield made


def consumer(daemon: Daemon) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": "deferred",
            "group.protocol": "consumer",
            "log_level": 0,
        }
    )
    made.subscribe(["alpha"])
    return made


def shares(consumers: list[Consumer]) -> list[int]:
    """How many partitions each has, in ascending order; empty unless together they own all once."""
    for one in consumers:
        one.poll(0.05)
    owned = [{at.partition for at in one.assignment()} for one in consumers]
    if set().union(*owned) != set(range(PARTITIONS)) or sum(map(len, owned)) != PARTITIONS:
        return []
    return sorted(map(len, owned))


def test_consumers_come_and_go(daemon: Daemon) -> None:
    consumers = [consumer(daemon) for _ in range(4)]
    try:
        wait_until(lambda: shares(consumers) == [3, 3, 3, 3], 30, "four share", daemon.logs)
        consumers.pop().close()
        wait_until(lambda: shares(consumers) == [4, 4, 4], 30, "three share", daemon.logs)
        consumers.append(consumer(daemon))
        wait_until(lambda: shares(consumers) == [3, 3, 3, 3], 30, "four share again", daemon.logs)
    finally:
        for one in consumers:
            one.close()
