"""The listeners of a broker, which share limits, counters and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.server.client_session import FindAccess, KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_rates import ConnectionRates
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.descriptors import most_connections
from groupd.coordinator.server.fairness import Fairness
from groupd.coordinator.server.listener import KafkaListener
from groupd.coordinator.server.metering import Metering
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.requests import Requests
from groupd.coordinator.server.sasl_endpoint import SaslEndpoints


class KafkaPorts:
    """`open` them once. `make`: makes a connection. `access`: what a principal may do. `sasl`: how
    clients say who they are. `metering`: counts what they use of their quotas."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        requests: Requests,
        stats: ConnectionStats,
        fairness: Fairness,
        make: Callable[..., Connection],
        access: FindAccess,
        sasl: SaslEndpoints,
        metering: Metering,
    ) -> None:
        self._config = config
        self._clock = clock
        self._requests = requests
        self._stats = stats
        self._fairness = fairness
        self._make = make
        self._access = access
        self._sasl = sasl
        self._metering = metering
        self._of_all: OpenConnections[Connection] = OpenConnections(
            config, most_connections(config.max_connections)
        )
        self._listeners: list[KafkaListener] = []

    async def open(self, listeners: Iterable[Listener]) -> Mapping[str, tuple[str, int]]:
        """Listen. The bound addresses by name, in order. Raises CannotListen; then some ports may
        be open."""
        bound: dict[str, tuple[str, int]] = {}
        rates = ConnectionRates(self._config, self._clock, self._metering.quotas)
        for listener in listeners:
            config = listener_config(self._config, listener.name)
            opened = KafkaListener(
                config,
                self._clock,
                self._requests,
                self._stats,
                self._fairness,
                self._make,
                KafkaEndpoint(
                    listener.name,
                    self._access,
                    self._sasl.of(listener.name),
                    self._metering,
                    ConnectionRates(config, self._clock, self._metering.quotas, rates),
                ),
                self._of_all,
            )
            self._listeners.append(opened)
            flag = "listeners" if self._config.listeners else "--listen"
            bound[listener.name] = await opened.start(listener.host, listener.port, flag)
        self._stats.most = most_connections(self._config.max_connections)
        return bound

    def close_listeners(self) -> None:
        """Accept no more connections; open ones stay."""
        for listener in self._listeners:
            listener.close_listener()

    def stop_reading(self) -> None:
        """Take no new requests; those under way can still be answered."""
        for listener in self._listeners:
            listener.stop_reading()

    async def close_connections(self) -> None:
        """See `KafkaListener.close_connections`."""
        for listener in self._listeners:
            await listener.close_connections()
        self._sasl.close()
