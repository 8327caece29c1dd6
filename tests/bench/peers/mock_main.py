"""librdkafka's mock cluster as a process of its own: prints its address, ends with its input."""

from __future__ import annotations

import sys

from tests.bench.peers.embedded import HEARTBEAT_MS
from tests.bench.peers.mock_cluster import MockCluster

if __name__ == "__main__":
    topic, _, partitions = sys.argv[1].partition(":")
    heartbeat_ms = int(sys.argv[2]) if len(sys.argv) > 2 else HEARTBEAT_MS
    cluster = MockCluster({topic: int(partitions)}, heartbeat_ms=heartbeat_ms)
    print(cluster.bootstrap, flush=True)
    sys.stdin.read()
    cluster.close()
