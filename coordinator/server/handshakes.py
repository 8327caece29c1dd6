"""The TLS handshakes of a process: how many are under way, and whose turn it is.

A handshake costs the loop more than hundreds of heartbeats, and memory until it ends. So clients
whose first message is there stand in line; each turn of the loop begins a few handshakes, and only
so many are under way at once. While others wait, one that takes long has to make room: clients that
stop halfway cannot keep the others out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle, elapsed_ns

SHARE_NS = 2_000_000
"""Handshakes are begun for so long in one turn of the loop; at least one is begun."""


class Shaking(Protocol):
    """A connection that has not finished its handshake."""

    def begin(self) -> None:
        """It is this connection's turn."""
        ...

    def too_late(self) -> None:
        """The handshake has had its time."""
        ...


class Handshakes:
    """The handshakes of a process. `clock`: that of the sockets. `succeeded` and `failed` count
    those that have ended."""

    def __init__(
        self, config: CoordinatorConfig, clock: Clock, elapsed: Callable[[], int] = elapsed_ns
    ) -> None:
        self._most = config.tls_handshakes_max
        self._timeout_ms = config.tls_handshake_timeout_ms
        self._clock = clock
        self._elapsed = elapsed
        self._deadlines: dict[Shaking, TimerHandle] = {}
        """The timers of all connections that have not finished."""
        self._line: dict[Shaking, bool] = {}
        self._under_way: dict[Shaking, int] = {}
        """When each handshake under way began, in milliseconds; the oldest one first."""
        self._scheduled = False
        self._room: TimerHandle | None = None
        self.succeeded = 0
        self.failed = 0

    @property
    def pending(self) -> int:
        """Connections that have not finished their handshake, whether it has begun or not."""
        return len(self._deadlines)

    def opened(self, connection: Shaking) -> None:
        """The connection has been accepted and may send: its time runs. A second call changes
        nothing."""
        if connection in self._deadlines:
            return
        due = self._clock.monotonic_ms() + self._timeout_ms
        self._deadlines[connection] = self._clock.call_at(due, connection.too_late)

    def line_up(self, connection: Shaking) -> None:
        """The first message of the client is there. `begin` is called later, never at once."""
        self._line[connection] = True
        self._schedule()

    def ended(self, connection: Shaking, succeeded: bool) -> None:
        """The handshake is over. A second call changes nothing."""
        deadline = self._deadlines.pop(connection, None)
        if deadline is None:
            return
        deadline.cancel()
        self.succeeded += succeeded
        self.failed += not succeeded
        self._line.pop(connection, None)
        self._under_way.pop(connection, None)
        self._schedule()

    def _schedule(self) -> None:
        if self._line and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._scheduled = False
        until = self._elapsed() + SHARE_NS
        while self._line:
            if len(self._under_way) >= self._most:
                self._make_room()
                return
            # The newest first: a client behind thousands that stop halfway need not outlast them.
            connection = next(reversed(self._line))
            del self._line[connection]
            self._under_way[connection] = self._clock.monotonic_ms()
            connection.begin()
            if self._elapsed() >= until:
                break
        self._schedule()

    def _make_room(self) -> None:
        """The oldest handshake ends when it has had a tenth of its time."""
        oldest = next(iter(self._under_way))
        due = self._under_way[oldest] + self._timeout_ms // 10
        if due <= self._clock.monotonic_ms():
            oldest.too_late()
        elif self._room is None:
            self._room = self._clock.call_at(due, self._look_again)

    def _look_again(self) -> None:
        self._room = None
        self._schedule()
