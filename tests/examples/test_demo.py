"""The demo sees the group as it is; `make demo` shows it for half a minute."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
from types import ModuleType

import pytest
from rich.console import Console

from groupd.testing.harness import GroupCoordinator
from tests.support.daemon import ROOT
from tests.support.process import wait_until

DEMO = ROOT / "examples" / "demo" / "demo.py"


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("groupd_demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_before_anybody_has_joined_there_is_nothing(demo: ModuleType) -> None:
    with GroupCoordinator.start({demo.TOPIC: demo.PARTITIONS}) as broker:
        assert demo.look(broker) == demo.Snapshot()


def test_a_consumer_owns_all_partitions_and_commits_what_it_reads(demo: ModuleType) -> None:
    with GroupCoordinator.start({demo.TOPIC: demo.PARTITIONS}, demo.SETTINGS) as broker:
        broker.produce(demo.TOPIC, [f"order {number}" for number in range(100)])
        command = [sys.executable, str(demo.CONSUMER), broker.bootstrap_servers]
        consumer = subprocess.Popen([*command, demo.GROUP, demo.TOPIC, "consumer-1"])
        try:
            wait_until(lambda: sum(demo.look(broker).committed.values()) == 100, 60, "the commits")
            seen = demo.look(broker)
        finally:
            consumer.terminate()
            assert consumer.wait(20) == 0
    assert seen.state == "Stable"
    assert seen.owners() == dict.fromkeys(range(demo.PARTITIONS), "consumer-1")
    shown = io.StringIO()
    Console(file=shown, width=100).print(demo.picture(seen, [(1.5, "consumer-1 starts")], 2.0))
    assert "group demo: Stable" in shown.getvalue()
    assert "1.5 s  consumer-1 starts" in shown.getvalue()
