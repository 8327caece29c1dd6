"""Lets the connections of a process start requests in fair turns.

The event loop hears of all sockets once in each of its turns. As long as a turn is young, requests
start as they come. Once the requests of a turn have taken `BUDGET_NS`, a connection that has had
its `SHARE_NS` gets in line, and has another share in each following turn. So a client that sends a
hundred requests at once delays a client that sends one by a turn or two, not by a hundred requests.

The timer of `LoopStalls` tells how old a turn is: it rings in every turn that takes longer than its
interval. A marker of our own in each turn would cost every request more than this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.coordinator.runtime.loop_stalls import INTERVAL_S, LoopStalls

BUDGET_NS = 4_000_000
"""The time that the requests of one turn may take."""

SHARE_NS = 300_000
"""How long a connection may still start requests in a turn that has used up its budget. A dozen
heartbeats fit in, or some commits, which then share a write to the log."""

_OLD_NS = int(INTERVAL_S * 1e9) + BUDGET_NS
_HALF_NS = int(INTERVAL_S * 1e9) + BUDGET_NS // 2


class Starter(Protocol):
    """A connection with requests that have not started."""

    def start_some(self) -> None: ...


class RequestTurns:
    """The line of the connections. `stalls`: the timer that tells how old a turn of the loop is.
    `elapsed()`: the time in nanoseconds."""

    __slots__ = ("_line", "_scheduled", "_stalls", "elapsed")

    def __init__(self, stalls: LoopStalls, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._stalls = stalls
        self.elapsed = elapsed
        self._line: dict[Starter, bool] = {}
        self._scheduled = False

    def until(self) -> int:
        """The time, by `elapsed`, until which a connection may start requests from now on."""
        old_ns = self._stalls.rang_ns + _OLD_NS
        return max(old_ns, self.elapsed() + SHARE_NS)

    def used_up(self) -> bool:
        """Whether the requests of this turn have had their time. The step of a login takes as long
        as a dozen heartbeats, so it waits for the next turn then, even if it is the only request of
        its connection."""
        return self.elapsed() > self._stalls.rang_ns + _OLD_NS

    def line_up(self, connection: Starter) -> None:
        """Let `connection` start more when it is its turn; a second call changes nothing."""
        self._line[connection] = True
        self._schedule()

    def leave(self, connection: Starter) -> None:
        """The connection is closed."""
        self._line.pop(connection, None)

    def _schedule(self) -> None:
        """Runs `_next` once in each turn: a connection may get in line again while it runs."""
        if self._line and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Half of a turn is for those who stand in line, the other half for what arrives."""
        self._scheduled = False
        line = self._line
        for connection in list(line):
            if line.pop(connection, False):
                connection.start_some()
            if self.elapsed() - self._stalls.rang_ns > _HALF_NS:
                break
        self._schedule()
