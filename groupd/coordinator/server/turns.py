"""Shares the time of the event loop among the connections of a process.

In each turn the event loop handles all sockets that have data. For `BUDGET_NS` of a turn, requests
are started and TLS records are decrypted as they come. After that, a connection that has more than
one request or record waits in line. Half of the time of each turn is for the connections in the
line. So if one client sends a hundred requests at once, another client that sends one request waits
for a turn or two, not for a hundred requests. If a thousand clients do so, it waits no longer. A
connection in the line is not read.

The timer of `LoopStalls` tells how long a turn has lasted: it rings in every turn that takes longer
than its interval. To note the beginning of each turn here would cost every request more than this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import cycle
from typing import Protocol

from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.coordinator.runtime.loop_stalls import INTERVAL_S, LoopStalls
from groupd.coordinator.server.by_network import ByNetwork, network_of

BUDGET_NS = 4_000_000
"""For this long in each turn, requests and records are worked on as they come."""

SHARE_NS = 300_000
"""How long a connection may work at least when its turn in the line has come. That is enough for a
dozen heartbeats, or for some commits, which then share a write to the log."""

SHORT_BYTES = 512
"""A client that has sent no more than this does not wait for all clients that have sent more."""

_OLD_NS = int(INTERVAL_S * 1e9) + BUDGET_NS
_HALF_NS = int(INTERVAL_S * 1e9) + BUDGET_NS // 2


class QueuedConnection(Protocol):
    """A connection with work that has not started. `host`: the client's address."""

    host: str

    def start_some(self) -> None: ...


class RequestTurns:
    """The line of the connections. `stalls`: the timer that tells how old a turn of the loop is.
    `elapsed()`: the time in nanoseconds."""

    def __init__(self, stalls: LoopStalls, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._stalls = stalls
        self.elapsed = elapsed
        self._short: ByNetwork[QueuedConnection] = ByNetwork()
        """The connections in line that have sent little, or a step of a handshake."""
        self._long: ByNetwork[QueuedConnection] = ByNetwork()
        """The connections in line that have sent more."""
        self._whose = cycle(((self._short, True), (self._short, False), (self._long, False)))
        """The order of turns: a line, and whether its newest or its oldest connection is next."""
        self._again: dict[QueuedConnection, bool] | None = None
        """The connections that got in line again while the line is served, each with `short`. None:
        the line is not being served."""
        self._share_ns = SHARE_NS
        self._scheduled = False

    def until(self, in_turn: bool) -> int:
        """The time, by `elapsed`, until which a connection may work; it is in the past if the turn
        of the loop is used up. `in_turn`: it has waited in line, and now is its turn."""
        if in_turn:
            return self.elapsed() + self._share_ns
        return self._stalls.rang_ns + _OLD_NS

    def used_up(self) -> bool:
        """Whether from now on in this turn requests have to wait in line."""
        return self.elapsed() > self._stalls.rang_ns + _OLD_NS

    def line_up(self, connection: QueuedConnection, short: bool) -> None:
        """Puts `connection` into the line; a second call changes nothing. `short`: what it has to
        work on is at most `SHORT_BYTES`, or a step of a handshake."""
        if self._again is not None:
            self._again[connection] = short
        elif connection not in self._short and connection not in self._long:
            (self._short if short else self._long).add(connection, network_of(connection.host))
        self._schedule()

    def leave(self, connection: QueuedConnection) -> None:
        """Takes a closed connection out of the line."""
        self._short.discard(connection)
        self._long.discard(connection)
        if self._again is not None:
            self._again.pop(connection, None)

    def _schedule(self) -> None:
        """Runs `_next` once in each turn. Connections that get in line again wait for the next."""
        if not self._scheduled and (self._short or self._long):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Serves the line for half of a turn; the other half is for requests as they come.

        Connections that have sent little take turns with those that have sent much. Of those that
        have sent little, the newest takes turns with the oldest. So a client that logs in does not
        wait for a thousand clients that send all they can, nor for thousands that have sent a
        password at the same moment; and all of them get on. Within a line, networks take turns."""
        self._scheduled = False
        short, long = self._short, self._long
        left_ns = self._stalls.rang_ns + _HALF_NS - self.elapsed()
        self._share_ns = max(SHARE_NS, left_ns // max(1, len(short) + len(long)))
        self._again = {}
        try:
            while short or long:
                line, newest = next(self._whose)
                if line:
                    line.take(newest=newest).start_some()
                    if self.elapsed() - self._stalls.rang_ns > _HALF_NS:
                        break
        finally:
            again, self._again = self._again, None
            for connection, little in again.items():
                self.line_up(connection, little)
            self._schedule()
