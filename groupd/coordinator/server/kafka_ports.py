"""The listeners of a broker, which share limits, counters and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.server.client_session import FindAccess, KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_rates import ConnectionRates
from groupd.coordinator.server.connection_stats import CertificateFacts, ConnectionStats
from groupd.coordinator.server.descriptors import most_connections
from groupd.coordinator.server.handshakes import Handshakes
from groupd.coordinator.server.listener import KafkaListener
from groupd.coordinator.server.metering import Metering
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.sasl_endpoint import SaslEndpoints
from groupd.coordinator.server.shared_resources import SharedResources
from groupd.coordinator.server.slot import Requests

if TYPE_CHECKING:
    from groupd.coordinator.security.tls import ListenerTls


class KafkaPorts:
    """All listeners of a broker. `make` makes a connection. `access`: what a principal may do.
    `sasl`: how clients log in. `metering`: counts their use of quotas. `tls`: the TLS of the
    listeners that have it, by name. Call `open` once."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        requests: Requests,
        stats: ConnectionStats,
        shared: SharedResources,
        make: Callable[..., Connection],
        access: FindAccess,
        sasl: SaslEndpoints,
        metering: Metering,
        tls: Mapping[str, ListenerTls],
    ) -> None:
        self._config = config
        self._clock = clock
        self._requests = requests
        self._stats = stats
        self._shared = shared
        self._make = make
        self._access = access
        self._sasl = sasl
        self._metering = metering
        stats.budget = shared.budget
        stats.most = most_connections(config.max_connections)
        self._of_all: OpenConnections[Connection] = OpenConnections(config, stats.most)
        self._tls = tls
        self._timer: TimerHandle | None = None
        self._listeners: list[KafkaListener] = []

    async def open(self, listeners: Iterable[Listener]) -> Mapping[str, tuple[str, int]]:
        """Starts to listen. Returns the bound addresses by name, in order. Raises CannotListen;
        then some ports may be open."""
        bound: dict[str, tuple[str, int]] = {}
        rates = ConnectionRates(self._config, self._clock, self._metering.quotas)
        for listener in listeners:
            config = listener_config(self._config, listener.name)
            endpoint = KafkaEndpoint(
                listener.name,
                self._access,
                self._sasl.of(listener.name),
                self._metering,
                ConnectionRates(config, self._clock, self._metering.quotas, rates),
            )
            connections = OpenConnections(
                config, most_connections(config.max_connections), self._of_all
            )
            opened = KafkaListener(
                config,
                self._clock,
                self._stats,
                self._shared,
                endpoint,
                connections,
                partial(
                    self._make,
                    config,
                    self._clock,
                    self._requests,
                    self._stats,
                    connections,
                    self._shared,
                    endpoint,
                ),
                self._wrapper(self._tls.get(listener.name)),
            )
            self._listeners.append(opened)
            flag = "listeners" if self._config.listeners else "--listen"
            bound[listener.name] = await opened.start(listener.host, listener.port, flag)
        self._arm()
        return bound

    def _wrapper(
        self, tls: ListenerTls | None
    ) -> Callable[[Connection], asyncio.BaseProtocol] | None:
        """Returns a function that puts TLS around a connection; None: the listener has no TLS."""
        if tls is None:
            return None
        # Imported here, because many daemons have no TLS.
        from groupd.coordinator.server.tls_connection import TlsConnection

        if self._stats.handshakes is None:
            self._stats.handshakes = Handshakes(self._config, self._clock)
            self._stats.certificates = self._certificates
        handshakes, shared = self._stats.handshakes, self._shared
        return partial(TlsConnection, listener=tls, handshakes=handshakes, shared=shared)

    def _certificates(self) -> list[CertificateFacts]:
        return [
            CertificateFacts(name, one.expires.timestamp(), one.reloads, one.failed_reloads)
            for name, one in self._tls.items()
        ]

    def reload_certificates(self) -> None:
        """Reads all certificates again, whether their files have changed or not."""
        for tls in self._tls.values():
            tls.reload()

    def _look_at_files(self) -> None:
        self._arm()  # first, so that an error of one file does not end the regular looks
        for tls in self._tls.values():
            tls.look()

    def _arm(self) -> None:
        if self._tls:
            due = self._clock.monotonic_ms() + self._config.tls_reload_interval_ms
            self._timer = self._clock.call_at(due, self._look_at_files)

    def close_listeners(self) -> None:
        """Stops accepting connections; open ones stay."""
        if self._timer is not None:
            self._timer.cancel()
        for listener in self._listeners:
            listener.close_listener()

    def stop_reading(self) -> None:
        """Takes no new requests; those under way can still be answered."""
        for listener in self._listeners:
            listener.stop_reading()

    async def close_connections(self) -> None:
        """See `KafkaListener.close_connections`."""
        for listener in self._listeners:
            await listener.close_connections()
        self._sasl.close()
