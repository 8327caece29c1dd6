"""The settings of a node: its identity, its lease in a cluster, and limits of connections and of
what they send.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from groupd.coordinator.config.settings import ConfigError, setting

_INT_MAX = 2**31 - 1

_RENEWALS = 4
"""How many times a lease is renewed during its length, so that one failed renewal does no harm."""


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `CoordinatorConfig` makes them
class NodeSettings:
    """The daemon, its limits, and its place in a cluster."""

    # The daemon
    node_id: int = setting("node.id", 0, low=0)
    store_wait_ms: int = setting("groupd.store.wait.ms", 60000, low=0)
    # A cluster
    cluster_lease_ms: int = setting("groupd.cluster.lease.ms", 2400, low=500, high=60000)
    broker_rack: str = setting("broker.rack", "")
    # Connections
    socket_request_max_bytes: int = setting("socket.request.max.bytes", 104857600, low=1024)
    queued_max_request_bytes: int = setting("queued.max.request.bytes", 134217728, low=-1)
    max_connections: int = setting("max.connections", 20000, low=1)
    max_connections_per_ip: int = setting("max.connections.per.ip", _INT_MAX, low=0)
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        "max.connections.per.ip.overrides", ()
    )
    connections_max_idle_ms: int = setting("connections.max.idle.ms", 600000, low=1)

    @property
    def cluster_renew_ms(self) -> int:
        """How often a node of a cluster renews its lease, in milliseconds."""
        return self.cluster_lease_ms // _RENEWALS


def limits_by_address(settings: NodeSettings) -> dict[str, int]:
    """`max.connections.per.ip.overrides` by address. Raises ConfigError."""
    limits = {}
    for entry in settings.max_connections_per_ip_overrides:
        address, _, limit = entry.rpartition(":")
        try:
            limits[plain_address(str(ip_address(address.strip("[]"))))] = int(limit)
        except ValueError:
            raise ConfigError(
                f"max.connections.per.ip.overrides={entry}: must be an address and a number, "
                "such as 10.0.0.7:100"
            ) from None
    if any(limit < 0 for limit in limits.values()):
        raise ConfigError("max.connections.per.ip.overrides: a limit must be at least 0")
    return limits


def plain_address(address: str) -> str:
    """The address in one form: an IPv4 address that a socket for both versions shows as IPv6
    becomes IPv4."""
    return address.removeprefix("::ffff:") if "." in address else address
