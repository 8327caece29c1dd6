"""Which process of xdist runs what: a file as a whole, and everything that needs Spark in one of
them, because each session of Spark takes a minute of the processor until it is warm."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/pipeline/"
LONG = (
    SPARK,
    "tests/clients/test_exactly_once.py",
    "tests/chaos/test_cluster_chaos.py",
    "tests/crash/test_crash.py",
    "tests/clients/test_cluster.py",
    "tests/fuzz/test_fuzz.py",
    "tests/attack/",
    "tests/chaos/test_chaos.py",
    "tests/wire/test_random_order.py",
    "tests/clients/",
    "tests/soak/",
)
"""What one process does for minutes begins first: it would end long after the others if it came
last. The fifth comes after the third, in the same process: each has three nodes of a cluster and
their clients, which is much to do at the same time."""
SHORT = "tests/unit/"
"""Files of some seconds come last, so that all processes end at about the same time."""


class OneSpark(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSpark | None:
    return OneSpark(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: turn(item.nodeid))


def turn(nodeid: str) -> int:
    """Where the files of a place come in the order; within it they keep the order they had."""
    for number, place in enumerate(LONG):
        if nodeid.startswith(place):
            return number
    return len(LONG) + nodeid.startswith(SHORT)
