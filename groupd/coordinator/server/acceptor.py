"""Accepts connections while there is room for them (docs/spec/security.md#5.2).

At a limit no connection is accepted. Then clients wait in the backlog of the kernel until another
connection ends. A server of `asyncio` cannot do that, because it accepts all clients that wait.

The kernel returns connections in the order in which they came, so a client would wait for thousands
that came before it. To accept a socket costs much less than to open a connection with it. So
sockets are accepted at once and wait in line here. In the line networks take turns, and within a
network the newest socket takes turns with the oldest.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Hashable
from functools import partial
from socket import socket

import structlog

from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.coordinator.server.by_network import ByNetwork, network_of
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.open_connections import OpenConnections

BACKLOG = 65_535
"""The length of the backlog that we ask for. The kernel takes `net.core.somaxconn` if that is less,
usually 4096."""
SOCKETS_PER_TURN = 1024
"""How many sockets are accepted in one turn of the loop: some 20 microseconds each."""
CONNECTIONS_PER_TURN = 64
"""How many connections are opened in one turn of the loop: some 70 microseconds each."""
RETRY_MS = 100
"""The pause after an error of the process, for example when it has no descriptor left."""

QUIET_MS = 10_000
"""When no client has waited for this long, the next wait is logged again."""

_OF_A_CLIENT = frozenset(
    (
        errno.ECONNABORTED,
        errno.EPROTO,
        errno.ENOPROTOOPT,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EOPNOTSUPP,
        errno.EPERM,
    )
)
"""Errors of a new connection that Linux reports through `accept`. The next connection may be
fine."""

log = structlog.get_logger("groupd.connection")


class Acceptor:
    """Accepts the connections of one listening socket, on the running loop. `listener`: the
    listener's name. `clock`: the clock of the sockets. `make()` makes a connection.
    `wrap(connection)` makes the protocol that its socket gets; None: the connection itself."""

    def __init__(
        self,
        listening: socket,
        listener: str,
        clock: Clock,
        connections: OpenConnections[Connection],
        stats: ConnectionStats,
        make: Callable[[], Connection],
        wrap: Callable[[Connection], asyncio.BaseProtocol] | None,
    ) -> None:
        self._listening = listening
        self._listener = listener
        self._clock = clock
        self._connections = connections
        self._stats = stats
        self._make = make
        self._wrap = wrap
        self._loop = asyncio.get_running_loop()
        self._line: ByNetwork[socket] = ByNetwork()
        self._newest = True
        """Whether the newest socket of a network comes next, else the oldest."""
        self._scheduled = False
        self._opening: dict[socket, asyncio.Task[None]] = {}
        self._closed = False
        self._paused = False
        """Whether clients wait while the listening socket is not watched."""
        self._waited_ms: int | None = None
        """When clients waited last."""
        self._retry: TimerHandle | None = None

    def start(self) -> None:
        """Starts to listen. Raises OSError."""
        self._listening.setblocking(False)
        self._listening.listen(BACKLOG)
        self._loop.add_reader(self._listening, self._accept)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listening.getsockname()[:2]
        return host, port

    def close(self) -> None:
        """Stops accepting. Sockets in the line are closed."""
        if self._closed:
            return
        self._closed = True
        if self._paused:
            self._stats.blocked -= 1
        self._loop.remove_reader(self._listening)
        self._listening.close()
        if self._retry is not None:
            self._retry.cancel()
        while self._line:
            accepted = self._line.take()
            accepted.close()
            self._connections.withdraw(accepted)

    def _accept(self) -> None:
        """Accepts the sockets of waiting clients. The loop calls this again while there are
        more."""
        for number in range(SOCKETS_PER_TURN):
            limit = self._connections.full
            if limit is not None:
                if number == 0:  # later in the loop, perhaps no client is left
                    self._wait_for_room(limit)
                break
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno not in _OF_A_CLIENT:
                    self._rest(error)
                    break
            else:
                self._connections.expect(accepted)
                self._line.add(accepted, network_of(address[0]))
        self._connections.offer()
        self._schedule()

    def _wait_for_room(self, limit: str) -> None:
        self._pause("clients wait until another connection ends", limit=limit)
        self._connections.when_room(partial(self._loop.call_soon, self._go_on))

    def _rest(self, error: OSError) -> None:
        self._pause("clients wait: no connection can be accepted", reason=str(error))
        self._retry = self._clock.call_at(self._clock.monotonic_ms() + RETRY_MS, self._go_on)

    def _pause(self, event: str, **why: str) -> None:
        self._paused = True
        self._stats.blocked += 1
        self._loop.remove_reader(self._listening)
        now_ms = self._clock.monotonic_ms()
        if self._waited_ms is None or now_ms - self._waited_ms >= QUIET_MS:
            log.warning(event, listener=self._listener, **why)
        self._waited_ms = now_ms

    def _go_on(self) -> None:
        if self._closed:
            self._connections.offer()
            return
        self._paused = False
        self._stats.blocked -= 1
        self._waited_ms = self._clock.monotonic_ms()
        self._loop.add_reader(self._listening, self._accept)
        self._accept()

    def _schedule(self) -> None:
        if self._line and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._open_some)

    def _open_some(self) -> None:
        self._scheduled = False
        for _ in range(min(len(self._line), CONNECTIONS_PER_TURN)):
            accepted = self._line.take(newest=self._newest)
            self._newest = not self._newest
            self._opening[accepted] = self._loop.create_task(self._open(accepted))
        self._schedule()

    async def _open(self, accepted: socket) -> None:
        """Makes a connection for the socket. From then on the connection has the place."""
        place: Hashable = accepted
        try:
            connection = self._make()
            self._connections.expect(connection)
            self._connections.withdraw(accepted)
            place = connection
            protocol = connection if self._wrap is None else self._wrap(connection)
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except (OSError, RuntimeError, MemoryError):
            # uvloop raises RuntimeError if the connection closes itself at once.
            accepted.close()
        finally:
            self._connections.withdraw(place)
            del self._opening[accepted]
