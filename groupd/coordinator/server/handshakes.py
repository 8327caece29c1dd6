"""Limits the TLS handshakes of a process: how many are under way, and which is next.

A handshake takes the event loop as long as hundreds of heartbeats, and it holds memory until it
ends. So a client waits in line when its first message has arrived. In each turn of the loop a few
handshakes begin, and only a limited number is under way.

Networks take turns, and within a network the newest client comes first. While clients wait, the
network with most handshakes has to end its oldest one: at once if a client of a network with fewer
waits, or after a fair time if only its own clients wait. So clients that stop halfway cannot keep
others out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle, elapsed_ns
from groupd.coordinator.server.by_network import ByNetwork, network_of

FAIR_SHARE = 40
"""For this fraction of its time limit (one in 40, by default a quarter of a second) a handshake
need not make room for others of its own network. With 500 places, 2000 clients of one network can
begin in a second."""

SHARE_NS = 2_000_000
"""For this long handshakes are begun in one turn of the loop; at least one is begun."""


class HandshakingConnection(Protocol):
    """A connection that has not finished its handshake."""

    @property
    def host(self) -> str: ...

    def begin(self) -> None:
        """Begins the handshake: it is this connection's turn."""
        ...

    def too_late(self) -> None:
        """Ends the handshake: its time is over."""
        ...


class Handshakes:
    """The handshakes of a process. `clock`: the clock of the sockets. `succeeded` and `failed`
    count the handshakes that have ended."""

    def __init__(
        self, config: CoordinatorConfig, clock: Clock, elapsed: Callable[[], int] = elapsed_ns
    ) -> None:
        self._most = config.tls_handshakes_max
        self._timeout_ms = config.tls_handshake_timeout_ms
        self._clock = clock
        self._elapsed = elapsed
        self._deadlines: dict[HandshakingConnection, TimerHandle] = {}
        """The timers of all connections that have not finished their handshake."""
        self._line: ByNetwork[HandshakingConnection] = ByNetwork()
        self._under_way: ByNetwork[HandshakingConnection] = ByNetwork()
        self._begun_ms: dict[HandshakingConnection, int] = {}
        """When each handshake under way began."""
        self._scheduled = False
        self._room: TimerHandle | None = None
        self.succeeded = 0
        self.failed = 0

    @property
    def pending(self) -> int:
        """How many connections have not finished their handshake, whether it has begun or not."""
        return len(self._deadlines)

    def opened(self, connection: HandshakingConnection) -> None:
        """Starts the time limit of a connection that has been accepted and may send. A second call
        changes nothing."""
        if connection in self._deadlines:
            return
        due = self._clock.monotonic_ms() + self._timeout_ms
        self._deadlines[connection] = self._clock.call_at(due, connection.too_late)

    def line_up(self, connection: HandshakingConnection) -> None:
        """Puts a connection into the line when the first message of its client has arrived. `begin`
        is called later, never at once."""
        self._line.add(connection, network_of(connection.host))
        self._schedule()

    def ended(self, connection: HandshakingConnection, succeeded: bool) -> None:
        """Notes that the handshake is over. A second call changes nothing."""
        deadline = self._deadlines.pop(connection, None)
        if deadline is None:
            return
        deadline.cancel()
        self.succeeded += succeeded
        self.failed += not succeeded
        self._line.discard(connection)
        self._under_way.discard(connection)
        self._begun_ms.pop(connection, None)
        self._schedule()

    def _schedule(self) -> None:
        if self._line and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._scheduled = False
        until = self._elapsed() + SHARE_NS
        while self._line:
            network = None
            if len(self._under_way) >= self._most:
                network = self._make_room()
                if network is None:
                    return
            connection = self._line.take(network)
            self._under_way.add(connection, network_of(connection.host))
            self._begun_ms[connection] = self._clock.monotonic_ms()
            connection.begin()
            if self._elapsed() >= until:
                break
        self._schedule()

    def _make_room(self) -> str | None:
        """Ends one handshake and returns the network whose client may take its place; None: no
        handshake has to make room yet."""
        under_way = self._under_way
        network = min(self._line.networks, key=under_way.weight_of)
        most = under_way.heaviest()
        oldest = under_way.oldest(most)
        fair = under_way.weight_of(network) + 1 >= under_way.weight_of(most)
        due = self._begun_ms[oldest] + (self._timeout_ms // FAIR_SHARE if fair else 0)
        if due <= self._clock.monotonic_ms():
            oldest.too_late()
            return network
        if self._room is None:
            self._room = self._clock.call_at(due, self._look_again)
        return None

    def _look_again(self) -> None:
        self._room = None
        self._schedule()
