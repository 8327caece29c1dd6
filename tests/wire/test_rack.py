"""The rack of a node (`broker.rack`), as clients see it; workers are in that of their main
process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.wire_client import WireClient


@pytest.mark.parametrize(("workers", "nodes"), [(1, 1), (2, 3)])
def test_nodes_are_shown_with_their_rack(tmp_path: Path, workers: int, nodes: int) -> None:
    daemon = Daemon(tmp_path, workers=workers, settings={"broker.rack": "zone-a"})
    daemon.start()
    try:
        with WireClient(daemon.host, daemon.port) as client:
            shown = client.call("Metadata", 12, topics=[])["brokers"]
            described = client.call("DescribeCluster", 1)["brokers"]
    finally:
        daemon.close()
    assert [node["rack"] for node in shown] == ["zone-a"] * nodes
    assert [node["rack"] for node in described] == ["zone-a"] * nodes
