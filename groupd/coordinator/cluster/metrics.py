"""Metrics of a node of a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import gauge, labelled, total
from groupd.coordinator.cluster.local_node import LocalNode
from groupd.coordinator.cluster.peers import Peers


class MembershipCollector(Collector):
    """The lease, the units, and how the database answers."""

    def __init__(self, member: LocalNode) -> None:
        self._member = member

    def collect(self) -> Iterable[Metric]:
        node = self._member.node
        lease, view = node.lease, node.view
        yield gauge(
            "groupd_cluster_lease_age_seconds",
            "Time since the renewal on which the lease rests.",
            lease.age_ms / 1000,
        )
        yield gauge(
            "groupd_cluster_lease_valid", "Whether this node may answer now.", float(lease.valid())
        )
        yield gauge(
            "groupd_cluster_renew_seconds", "How long the last renewal took.", node.renew_ns / 1e9
        )
        yield total("groupd_cluster_renewals", "Renewals of the lease.", node.renewals)
        yield total(
            "groupd_cluster_failures", "How often the database did not answer.", node.failures
        )
        yield total("groupd_cluster_fenced", "How often this node was fenced.", node.fenced)
        yield gauge("groupd_cluster_nodes", "Members, by the last answer.", len(view.members))
        yield from self._units()
        yield gauge(
            "groupd_cluster_unit_load_seconds",
            "Load time of the unit that was loaded last.",
            node.held.last_load_ms / 1000,
        )
        yield gauge(
            "groupd_cluster_catalogue_version",
            "Version of the newest change of the catalogue, by the last answer.",
            view.catalogue,
        )
        yield gauge(
            "groupd_cluster_catalogue_applied",
            "Version of the catalogue that this node works with.",
            self._member.store.journal.applied,
        )

    def _units(self) -> Iterable[Metric]:
        node, units = self._member.node, self._member.units
        own = dict.fromkeys(node.view.counts, 0.0)
        for unit in units.get(self._member.node_id, ()):
            own[unit.kind] += 1
        yield labelled("groupd_cluster_units", "Units that this node owns.", "kind", own)
        yield gauge(
            "groupd_cluster_units_without_owner",
            "Units without an owner, by the last answer.",
            len(units.get(None, ())) + node.view.missing,
        )
        for name, doc, counts in (
            ("taken", "Units that this node has acquired.", node.held.taken),
            ("given", "Units that this node has given up or lost.", node.held.given),
        ):
            family = CounterMetricFamily(f"groupd_cluster_units_{name}", doc, labels=["kind"])
            for kind in node.view.counts:
                family.add_metric([kind], counts[kind])
            yield family


class PeerCollector(Collector):
    """The calls of this node to other nodes."""

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
