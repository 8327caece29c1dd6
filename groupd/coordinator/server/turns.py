"""Lets the connections of a process work in fair turns on what they have received.

In each turn the event loop handles all sockets that have data. At the beginning of a turn, requests
start, and TLS records are decrypted, as they come. Once this has taken `BUDGET_NS` of a turn, a
connection with more than one request or record gets in line before it does anything, and a
connection that is at work gets in line behind the others. In each turn half of the time is for the
line. So a client that sends a hundred requests at once delays a client that sends one by a turn or
two, not by a hundred requests; and a thousand such clients delay it no longer than one. A
connection in the line is not read.

The timer of `LoopStalls` tells how old a turn is: it rings in every turn that takes longer than its
interval. A marker of our own in each turn would cost every request more than this does.
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
"""How long in each turn requests and records are worked on as they come."""

SHARE_NS = 300_000
"""How long a connection may work at least when its turn in the line has come. That is enough for a
dozen heartbeats, or for some commits, which then share a write to the log."""

SHORT_BYTES = 512
"""A client that has sent no more than this does not wait behind clients that have sent more."""

_OLD_NS = int(INTERVAL_S * 1e9) + BUDGET_NS
_HALF_NS = int(INTERVAL_S * 1e9) + BUDGET_NS // 2


class QueuedConnection(Protocol):
    """A connection with work that has not started. `host`: the client's address."""

    host: str

    def start_some(self) -> None: ...


class RequestTurns:
    """The line of the connections. `stalls`: the timer that tells how old a turn of the loop is.
    `elapsed()`: the time in nanoseconds."""

    __slots__ = (
        "_again",
        "_long",
        "_scheduled",
        "_share_ns",
        "_short",
        "_stalls",
        "_whose",
        "elapsed",
    )

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
        """The connections that get in line again while the line is served, each with `short`. None:
        the line is not being served."""
        self._share_ns = SHARE_NS
        self._scheduled = False

    def until(self, in_turn: bool) -> int:
        """The time, by `elapsed`, until which a connection may work. It is in the past if this turn
        of the loop is used up, unless it is the connection's turn in the line (`in_turn`)."""
        if in_turn:
            return self.elapsed() + self._share_ns
        return self._stalls.rang_ns + _OLD_NS

    def used_up(self) -> bool:
        """Whether this turn of the loop has no time left for requests as they come."""
        return self.elapsed() > self._stalls.rang_ns + _OLD_NS

    def line_up(self, connection: QueuedConnection, short: bool) -> None:
        """Puts `connection` into the line; a second call changes nothing. `short`: it has sent no
        more than `SHORT_BYTES` behind its next request, or a step of a handshake."""
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
        """Runs `_next` once in each turn, because a connection may get in line again while it
        runs."""
        if not self._scheduled and (self._short or self._long):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Serves the line for half of a turn; the other half is for requests as they come.

        Connections that have sent much take turns with those that have sent little, and of these
        the newest with the oldest. So a client that logs in waits neither behind a thousand clients
        that send all they can, nor behind thousands that have sent a password at the same moment;
        and all of them get on. Within each line networks take turns, too."""
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
