"""Waiting items, grouped by the network of their client, so that no network can keep the others
waiting.

A network is an IPv4 address, or an IPv6 subnet of 64 bits, because a client that has one address of
such a subnet has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Generic, TypeVar

_IPV6_SUBNET = 64

T = TypeVar("T")


@lru_cache(maxsize=1024)
def network_of(host: str) -> str:
    """The network of an address. The address may begin with a slash, as Kafka writes it."""
    address = host.removeprefix("/")
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    mapped = getattr(ip, "ipv4_mapped", None)
    if mapped is not None:
        return str(mapped)
    if ip.version == 4:
        return address
    return str(ip_network((ip, _IPV6_SUBNET), strict=False))


class ByNetwork(Generic[T]):
    """Items by network, each with a weight. `weight`: the sum of all weights."""

    def __init__(self) -> None:
        self.weight = 0
        self._networks: dict[str, dict[T, int]] = {}
        """The weights of the items by network, in the order in which the items came. The network
        whose turn it is comes first."""
        self._weights: dict[str, int] = {}
        self._network: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._network)

    def __contains__(self, item: object) -> bool:
        return item in self._network

    @property
    def networks(self) -> Iterable[str]:
        return self._networks

    def add(self, item: T, network: str, weight: int = 1) -> None:
        """Adds an item. A second call for an item changes nothing."""
        if item in self._network:
            return
        self._network[item] = network
        self._networks.setdefault(network, {})[item] = weight
        self._weights[network] = self._weights.get(network, 0) + weight
        self.weight += weight

    def discard(self, item: T) -> None:
        network = self._network.pop(item, None)
        if network is None:
            return
        items = self._networks[network]
        weight = items.pop(item)
        self._weights[network] -= weight
        self.weight -= weight
        if not items:
            del self._networks[network], self._weights[network]

    def weight_of(self, network: str) -> int:
        return self._weights.get(network, 0)

    def take(self, network: str | None = None, newest: bool = True) -> T:
        """Takes out the newest (or the oldest) item of `network`; None: of the network whose turn
        it is. The newest comes first because the older clients may have stopped halfway: thousands
        of them would keep it waiting until their time is over."""
        network = next(iter(self._networks)) if network is None else network
        items = self._networks.pop(network)
        self._networks[network] = items
        item = next(reversed(items) if newest else iter(items))
        self.discard(item)
        return item

    def heaviest(self) -> str:
        """The network whose items weigh most together."""
        return max(self._weights, key=self._weights.__getitem__)

    def oldest(self, network: str) -> T:
        return next(iter(self._networks[network]))
