"""Lets the connections of a process work on what they have received in fair turns.

The event loop hears of all sockets once in each of its turns. As long as a turn is young, requests
start, and records of TLS are decrypted, as they come. Once this has taken `BUDGET_NS` of a turn, a
connection with more than one of them gets in line before it does anything, and one that is at work
gets in line behind. In each turn half of the time is for the line. So a client that sends a hundred
requests at once delays a client that sends one by a turn or two, not by a hundred requests, and a
thousand such clients take no longer than one. Who stands in line is not read.

The timer of `LoopStalls` tells how old a turn is: it rings in every turn that takes longer than its
interval. A marker of our own in each turn would cost every request more than this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain, zip_longest
from typing import Protocol

from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.coordinator.runtime.loop_stalls import INTERVAL_S, LoopStalls

BUDGET_NS = 4_000_000
"""The time that requests and records may take of one turn as they come."""

SHARE_NS = 300_000
"""How long a connection may work at least when its turn in the line has come. A dozen heartbeats
fit in, or some commits, which then share a write to the log."""

LIGHT = 4
"""Who needs no more than so many shares at a time does not wait behind all who need more."""

_OLD_NS = int(INTERVAL_S * 1e9) + BUDGET_NS
_HALF_NS = int(INTERVAL_S * 1e9) + BUDGET_NS // 2


class Starter(Protocol):
    """A connection with work that has not started."""

    def start_some(self) -> None: ...


class RequestTurns:
    """The line of the connections. `stalls`: the timer that tells how old a turn of the loop is.
    `elapsed()`: the time in nanoseconds."""

    __slots__ = (
        "_had",
        "_heavy",
        "_light",
        "_scheduled",
        "_served",
        "_share_ns",
        "_stalls",
        "elapsed",
    )

    def __init__(self, stalls: LoopStalls, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._stalls = stalls
        self.elapsed = elapsed
        self._light: dict[Starter, int] = {}
        """Those in line, and how many shares they have had since they had nothing to do."""
        self._heavy: dict[Starter, int] = {}
        """The same for those who have had `LIGHT` or more."""
        self._had = 0
        """The shares of the connection whose turn it is; 0 while it is nobody's."""
        self._served = 0
        """How many shares there have been."""
        self._share_ns = SHARE_NS
        self._scheduled = False

    def until(self, in_turn: bool) -> int:
        """The time, by `elapsed`, until which a connection may work from now on. It is over already
        if this turn of the loop is used up, except where it is the connection's turn in the
        line."""
        if in_turn:
            return self.elapsed() + self._share_ns
        return self._stalls.rang_ns + _OLD_NS

    def used_up(self) -> bool:
        """Whether this turn of the loop has no time left for what comes."""
        return self.elapsed() > self._stalls.rang_ns + _OLD_NS

    def line_up(self, connection: Starter) -> None:
        """Let `connection` work on when it is its turn; a second call changes nothing."""
        line = self._light if self._had < LIGHT else self._heavy
        if connection not in self._light and connection not in self._heavy:
            line[connection] = self._had
        self._schedule()

    def leave(self, connection: Starter) -> None:
        """The connection is closed."""
        self._light.pop(connection, None)
        self._heavy.pop(connection, None)

    def _schedule(self) -> None:
        """Runs `_next` once in each turn: a connection may get in line again while it runs."""
        if not self._scheduled and (self._light or self._heavy):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        """Half of a turn is for those who stand in line, the other half for what arrives. In line
        three take turns: who came last and who waits longest of those who have had few shares, and
        one of those who have had many. So a client that needs a few shares does not wait behind a
        thousand that came before it, and everybody gets on."""
        self._scheduled = False
        light, heavy = list(self._light), list(self._heavy)
        left_ns = self._stalls.rang_ns + _HALF_NS - self.elapsed()
        self._share_ns = max(SHARE_NS, left_ns // max(1, len(light) + len(heavy)))
        kinds = [light[::-1], heavy, light]
        first = self._served % len(kinds)
        by_turns = chain.from_iterable(zip_longest(*kinds[first:], *kinds[:first]))
        for connection in filter(None, dict.fromkeys(by_turns)):
            had = self._light.pop(connection, None)
            if had is None:
                had = self._heavy.pop(connection, None)
            if had is None:
                continue  # it has left
            self._had = had + 1
            self._served += 1
            try:
                connection.start_some()
            finally:
                self._had = 0
            if self.elapsed() - self._stalls.rang_ns > _HALF_NS:
                break
        self._schedule()
