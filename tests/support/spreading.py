"""Which process of xdist runs what: a file as a whole, and everything that needs Spark in one of
them, because each session of Spark takes a minute of the processor until it is warm."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/pipeline/"
FIRST = (SPARK, "tests/clients/test_exactly_once.py")
"""What one process does for minutes; it would end long after the others if it came last."""


class OneSpark(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSpark | None:
    return OneSpark(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))
