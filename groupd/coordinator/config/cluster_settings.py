"""The settings of a cluster: leases, and where a node stands."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import ConfigError, setting

_RENEWALS_MIN = 3
"""How many times a lease is renewed in its length at least, so that one failure costs nothing."""


@dataclass(frozen=True)
class ClusterSettings:
    """What the nodes of a cluster agree on, and what each tells of itself."""

    # A cluster
    cluster_lease_ms: int = setting(
        "groupd.cluster.lease.ms",
        2400,
        "With --cluster: how long a node may serve after its last renewal in the database; so long "
        "the units of a node that has died are not served. The same on all nodes.",
        low=500,
        high=60000,
    )
    cluster_renew_ms: int = setting(
        "groupd.cluster.renew.ms",
        600,
        "With --cluster: how often a node renews its lease; at most a third of the lease.",
        low=50,
        high=20000,
    )
    broker_rack: str = setting(
        "broker.rack", "", "The rack of this node, as clients see it; empty = none."
    )


def check_cluster(settings: ClusterSettings) -> None:
    """Raises ConfigError."""
    most = settings.cluster_lease_ms // _RENEWALS_MIN
    if settings.cluster_renew_ms > most:
        raise ConfigError(
            f"groupd.cluster.renew.ms={settings.cluster_renew_ms}: must be at most {most}, a third "
            "of groupd.cluster.lease.ms"
        )
