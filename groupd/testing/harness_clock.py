"""`c.clock`: the coordinator's time, for tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.calls import Hinting

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class HarnessClock(Hinting):
    """The coordinator's time. It runs ("real", or a factor) or stands still ("frozen"); the marker
    or `GroupCoordinator.start` says how it begins. docs/testing.md#time has the rules."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __repr__(self) -> str:
        try:
            factor = self._call("clock_factor")
        except HarnessError:
            return "<Clock of a closed broker>"
        mode = {0: "frozen", 1: "real"}.get(factor, f"{factor:g} times as fast")
        return f"<Clock {mode}, {datetime.fromtimestamp(self.now_ms / 1000, UTC):%F %T} UTC>"

    def advance(self, ms: int, *, keep_connected: bool = True) -> int:
        """Let `ms` milliseconds pass at once and return how many timers fired. They fire in order,
        each at its time, and all their effects are durable and answered when the call returns.

        Members whose connection is open count as heartbeating during that time. With
        `keep_connected=False` no member does: every session that is due in that time ends.

        >>> before_ms = groupd.clock.now_ms
        >>> groupd.clock.freeze()
        >>> fired = groupd.clock.advance(45_000)
        >>> groupd.clock.now_ms - before_ms >= 45_000
        True
        """
        return int(self._call("advance", ms, keep_connected=keep_connected))

    def freeze(self) -> None:
        """Time stands still; only `advance` moves it.

        >>> groupd.clock.freeze()
        >>> groupd.clock.now_ms == groupd.clock.now_ms
        True
        """
        self._call("set_clock", "frozen")

    def run(self, factor: float = 1.0) -> None:
        """Let the time run, at real speed or `factor` times as fast.

        >>> groupd.clock.run(60)
        >>> groupd.clock
        <Clock 60 times as fast, ... UTC>
        """
        self._call("set_clock", factor)

    @property
    def now_ms(self) -> int:
        """The coordinator's wall clock, in milliseconds since 1970.

        >>> groupd.clock.now_ms > 1_700_000_000_000
        True
        """
        return int(self._call("now")[1])
