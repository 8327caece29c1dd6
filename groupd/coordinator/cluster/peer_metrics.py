"""Metrics of the calls between nodes."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import gauge, labelled
from groupd.coordinator.cluster.peers import Peers


class PeerCollector(Collector):
    """What this node has asked others."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def collect(self) -> Iterable[Metric]:
        peers = self._peers
        yield gauge("groupd_peer_connections", "Connections to other nodes.", peers.connections)
        calls = CounterMetricFamily(
            "groupd_peer_calls", "Calls to other nodes.", labels=["api", "outcome"]
        )
        for (api, outcome), count in sorted(peers.calls.items()):
            calls.add_metric([api, outcome], count)
        yield calls
        yield labelled(
            "groupd_peer_last_call_ms",
            "How long the last call that was answered took.",
            "api",
            dict(sorted(peers.last_ms.items())),
        )
