"""The Kafka port: accepts connections, closes idle ones, and finishes open requests at shutdown."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from socket import socket

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.coordinator.server.acceptor import Acceptor
from groupd.coordinator.server.client_session import KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.shared_resources import SharedResources

CLOSE_TIMEOUT_S = 1.0
CLOSE_POLL_S = 0.01


class CannotListen(Exception):
    """A listener cannot be opened. `str()` is one line that says what is wrong and how to correct
    it."""


def cannot_listen(host: str, port: int, flag: str, error: OSError) -> CannotListen:
    """The error for a failed bind; it names the command-line flag."""
    if error.errno == errno.EADDRINUSE:
        return CannotListen(
            f"{flag} {host}:{port}: the port is in use; stop what holds it or choose another "
            "(port 0 takes any free one)"
        )
    return CannotListen(f"{flag} {host}:{port}: {error.strerror or error}; choose another address")


class KafkaListener:
    """All connections of one listening socket. `clock`: the clock of the sockets. `make()` makes a
    connection that adds itself to `connections`. `wrap` puts TLS around it; None: the listener has
    no TLS."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        stats: ConnectionStats,
        shared: SharedResources,
        endpoint: KafkaEndpoint,
        connections: OpenConnections[Connection],
        make: Callable[[], Connection],
        wrap: Callable[[Connection], asyncio.BaseProtocol] | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._stats = stats
        self._shared = shared
        self._endpoint = endpoint
        self._connections = connections
        self._make = make
        self._wrap = wrap
        self._acceptors: list[Acceptor] = []
        self._sweep: TimerHandle | None = None

    async def start(self, host: str, port: int, flag: str = "--listen") -> tuple[str, int]:
        """Listens and returns the bound address. `host` empty: all interfaces. `flag`: the setting
        that the address comes from. Raises CannotListen."""
        try:
            for bound in await _bound(host, port):
                acceptor = Acceptor(
                    bound,
                    self._endpoint.listener,
                    self._clock,
                    self._connections,
                    self._stats,
                    self._make,
                    self._wrap,
                )
                self._acceptors.append(acceptor)
                acceptor.start()
        except OSError as error:
            raise cannot_listen(host, port, flag, error) from error
        self._endpoint.metering.quotas.add_listener(self._forget_stored_replies)
        self._arm_sweep()
        return self._acceptors[0].address

    def close_listener(self) -> None:
        """Stops accepting connections; open ones stay."""
        for acceptor in self._acceptors:
            acceptor.close()
        if self._sweep is not None:
            self._endpoint.metering.quotas.remove_listener(self._forget_stored_replies)
            self._sweep.cancel()

    def stop_reading(self) -> None:
        """Takes no new requests; those under way can still be answered."""
        for connection in self._connections:
            connection.stop_reading()

    async def close_connections(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Closes each connection once its written replies have been sent, and aborts those that
        take longer than `timeout_s`. Long replies are finished first. Connections that are accepted
        in the meantime are closed too."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._connections:
                    for connection in self._connections:
                        if not (connection.closed or connection.blocked):
                            connection.close()
                    await asyncio.sleep(CLOSE_POLL_S)
        except TimeoutError:
            for connection in self._connections:
                connection.abort()
        self._shared.decoder.close()

    def _forget_stored_replies(self) -> None:
        """Forgets all stored replies after a change of quotas: where each request counts, none may
        be answered with a stored reply."""
        for connection in self._connections:
            connection.stored_replies.clear()

    def _arm_sweep(self) -> None:
        now_ms = self._clock.now().monotonic_ms
        interval_ms = max(10, min(30_000, self._config.connections_max_idle_ms // 2))
        self._sweep = self._clock.call_at(now_ms + interval_ms, self._close_idle)

    def _close_idle(self) -> None:
        now_ms = self._clock.now().monotonic_ms
        oldest = now_ms - self._config.connections_max_idle_ms
        for connection in self._connections:
            if connection.active:
                connection.active = False
                connection.idle_since_ms = now_ms
            elif connection.idle_since_ms <= oldest and connection.idle:
                if connection.closed:
                    connection.abort()  # its client has not read the last reply
                else:
                    connection.close()
        self._shared.heap_trimmer.look(self._stats.accepted, self._stats.open)
        self._arm_sweep()


async def _bound(host: str, port: int) -> list[socket]:
    """The sockets that are bound to the addresses of `host` and do not listen yet. Raises
    OSError."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        return [socket(fileno=os.dup(one.fileno())) for one in server.sockets]
    finally:
        server.close()
