"""The rack of a node (`broker.rack`), as clients see it."""

from __future__ import annotations

from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.wire_client import WireClient


def test_a_node_is_shown_with_its_rack(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings={"broker.rack": "zone-a"})
    daemon.start()
    try:
        with WireClient(daemon.host, daemon.port) as client:
            shown = client.call("Metadata", 12, topics=[])["brokers"]
            described = client.call("DescribeCluster", 1)["brokers"]
    finally:
        daemon.close()
    assert [node["rack"] for node in shown] == ["zone-a"]
    assert [node["rack"] for node in described] == ["zone-a"]
