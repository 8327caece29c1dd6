"""Sends the replies of one connection to a client that may read slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.coordinator.server.byte_budget import FREE_BYTES, Account
from groupd.coordinator.server.connection_stats import ConnectionStats

LINGER_MS = 5000
"""How long a client may take to end its side of a connection after we have ended ours."""


class Outgoing:
    """Sends the replies of one connection.

    `draining`: too many bytes are unsent, so no request may be started. While this is so, the
    client has to read a quarter of these bytes within each `write_stall_timeout_ms`; if it does
    not, `stalled()` is called. So a client that has asked for much has no more time than others."""

    __slots__ = (
        "_account",
        "_clock",
        "_config",
        "_due",
        "_mark",
        "_stalled",
        "_stats",
        "_timer",
        "_transport",
        "_written",
        "draining",
    )

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        stats: ConnectionStats,
        account: Account,
        stalled: Callable[[], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._stats = stats
        self._account = account
        self._stalled = stalled
        self._transport: asyncio.Transport | None = None
        self._written = 0
        self._due = 0
        """How many more bytes than `_mark` the client must have read when the timer rings."""
        self._mark = 0
        """How many bytes the client had read when the timer was set."""
        self._timer: TimerHandle | None = None
        self.draining = False

    def open(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=self._config.write_buffer_max_bytes)

    def close(self) -> None:
        """Forgets the socket, which is closed."""
        self._transport = None
        self._stalled = _nothing
        if self._timer is not None:
            self._timer.cancel()

    def write(self, data: bytes | bytearray) -> None:
        assert self._transport is not None
        self._stats.bytes_out += len(data)
        self._written += len(data)
        self._transport.write(data)
        if self.draining:
            self._account.set_unsent(self._unsent())

    def pause(self) -> None:
        """Starts `draining`: the buffer of the socket is full."""
        self.draining = True
        unsent = self._unsent()
        self._account.set_unsent(unsent)
        self._due = unsent // 4 if unsent > FREE_BYTES else 1
        self._watch()

    def finish(self) -> None:
        """Ends our side after everything that was written. A client that does not end its side too
        is dropped after `LINGER_MS`."""
        assert self._transport is not None
        if not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(
            self._clock.monotonic_ms() + LINGER_MS, self._transport.abort
        )

    def resume(self) -> None:
        """Ends `draining`: nearly everything has been sent."""
        self.draining = False
        self._account.set_unsent(0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _unsent(self) -> int:
        assert self._transport is not None
        return self._transport.get_write_buffer_size()

    def _watch(self) -> None:
        self._mark = self._written - self._unsent()
        deadline = self._clock.monotonic_ms() + self._config.write_stall_timeout_ms
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(deadline, self._look)

    def _look(self) -> None:
        if self._written - self._unsent() - self._mark >= self._due:
            self._watch()  # the client reads, if slowly
        else:
            self._stalled()


def _nothing() -> None:
    """Stands in for `stalled` once the connection has ended."""
