"""The listeners of a broker, which share limits, counters and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from ssl import SSLContext, SSLObject

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.coordinator.security.listeners import Listener, listener_config
from groupd.coordinator.security.tls import ListenerTls, NoPrincipal
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
from groupd.coordinator.server.tls_connection import ClientRefused, TlsConnection


class TlsEndpoint:
    """TLS of one listener, as its connections see it. `line`: where they wait for their
    handshakes."""

    def __init__(self, tls: ListenerTls, line: Handshakes) -> None:
        self._tls = tls
        self.line = line

    @property
    def context(self) -> SSLContext:
        return self._tls.context

    def opened(self, inner: Connection, connection: SSLObject) -> None:
        """Takes the principal from the certificate, unless the listener has SASL."""
        if self._tls.listener.protocol.sasl:
            return
        try:
            principal = self._tls.principal_of(connection)
        except NoPrincipal as error:
            raise ClientRefused(str(error)) from error
        if principal is not None:
            inner.identify(principal)


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
        self._of_all: OpenConnections[Connection] = OpenConnections(
            config, most_connections(config.max_connections)
        )
        self._tls = tls
        self._timer: TimerHandle | None = None
        self._listeners: list[KafkaListener] = []

    async def open(self, listeners: Iterable[Listener]) -> Mapping[str, tuple[str, int]]:
        """Starts to listen. Returns the bound addresses by name, in order. Raises CannotListen;
        then some ports may be open."""
        bound: dict[str, tuple[str, int]] = {}
        rates = ConnectionRates(self._config, self._clock, self._metering.quotas)
        for listener in listeners:
            tls = self._with_tls(listener)
            config = listener_config(self._config, listener.name)
            opened = KafkaListener(
                config,
                self._clock,
                self._requests,
                self._stats,
                self._shared,
                self._make,
                KafkaEndpoint(
                    listener.name,
                    self._access,
                    self._sasl.of(listener.name),
                    self._metering,
                    ConnectionRates(config, self._clock, self._metering.quotas, rates),
                ),
                self._of_all,
                None
                if tls is None
                else partial(TlsConnection, endpoint=tls, handshakes=tls.line, shared=self._shared),
            )
            self._listeners.append(opened)
            flag = "listeners" if self._config.listeners else "--listen"
            bound[listener.name] = await opened.start(listener.host, listener.port, flag)
        self._stats.most = most_connections(self._config.max_connections)
        self._arm()
        return bound

    def _with_tls(self, listener: Listener) -> TlsEndpoint | None:
        made = self._tls.get(listener.name)
        if made is None:
            return None
        if self._stats.handshakes is None:
            self._stats.handshakes = Handshakes(self._config, self._clock)
            self._stats.certificates = self._certificates
        return TlsEndpoint(made, self._stats.handshakes)

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
