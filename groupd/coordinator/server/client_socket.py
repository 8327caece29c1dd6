"""The socket of a connection: reading, muting, its memory, and the ways in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.server.byte_budget import Account
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.metering import Mute
from groupd.coordinator.server.outgoing import Outgoing
from groupd.coordinator.server.shared_resources import (
    READ_BYTES,
    SharedBufferProtocol,
    SharedResources,
)
from groupd.coordinator.server.turns import SHORT_BYTES
from groupd.protocol.wire.framing import FrameSplitter

log = structlog.get_logger("groupd.connection")


class ClientSocket(SharedBufferProtocol):
    """The part of a connection that deals with its socket. `shared`: what all sockets share."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        stats: ConnectionStats,
        shared: SharedResources,
    ) -> None:
        self.read_buffer = shared.read_buffer
        self._turns = shared.turns
        self._in_line = False
        """Whether it has received more than its share and waits for its turn. Meanwhile it is not
        read."""
        self._stats = stats
        self._transport: asyncio.Transport | None = None
        self.account = Account(shared.budget, self._soon, self._overdue)
        self._out = Outgoing(config, clock, stats, self.account, self._stalled)
        self._splitter = FrameSplitter(config.socket_request_max_bytes)
        self._frame: bytes | None = None
        """The first frame that has not started."""
        self._reading = True
        self._mute: Mute | None = None
        """Set while the connection is muted because of a quota."""
        self._quiet = True
        """Whether no request is under way, so that the next one may have a stored reply."""
        self.closed = False
        self.host = ""

    def _soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._splitter.missing > READ_BYTES and self.account.incoming:
            return self.read_buffer.large[: self._splitter.missing]
        return self.read_buffer.usual

    def _forget_frames(self) -> None:
        self._splitter.clear()
        self._frame = None

    def limit_frames(self, most: int) -> None:
        """Sets the largest size of a frame from now on, in bytes."""
        self._splitter.max_frame_bytes = most

    def _line_up(self) -> None:
        """Gets in line. Work and reading go on when it is this connection's turn."""
        self._in_line = True
        self._read(False)
        self._turns.line_up(self, len(self._splitter.rest) <= SHORT_BYTES)

    def start_some(self) -> None:
        """Called when it is this connection's turn in the line: starts some of the requests that
        have come."""
        self._in_line = False
        if self.closed:
            self._read(True)  # what the client sends is dropped
        else:
            self._pump(True)

    def _pump(self, in_turn: bool = False) -> None:
        """Starts the requests that may start."""
        raise NotImplementedError

    def _wait(self, clock: Clock, wait_ms: int) -> None:
        """Mutes the connection for `wait_ms`: no request is started and nothing is read."""
        if self._mute is None:
            self._mute = Mute(clock, self._waited)
        self._mute.for_ms(wait_ms)

    def _waited(self) -> None:
        self._mute = None
        self._soon(self._pump)

    def hold_back(self, clock: Clock, wait_ms: int) -> None:
        """Reads nothing for `wait_ms`."""
        self._quiet = False
        self._set_reading(False)
        self._wait(clock, wait_ms)

    def turn_away(self, clock: Clock, wait_ms: int) -> None:
        """Reads nothing for `wait_ms`, then closes the connection."""
        self._stats.refused += 1
        self._set_reading(False)
        self.closed = True
        self._quiet = False
        clock.call_at(clock.monotonic_ms() + wait_ms, self.abort)

    def abort(self) -> None:
        """Drops the connection now."""
        self.closed = True
        self._quiet = False
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Closes the connection once everything that was written has been sent."""
        self.closed = True
        self._quiet = False
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Closes the connection so that the client can read what was written. Input is read on and
        dropped, because unread input would turn the end into a reset."""
        self.closed = True
        self._quiet = False
        if self._transport is not None:
            self._read(not self._in_line)
            self._out.finish()

    def _set_reading(self, reading: bool) -> None:
        if reading != self._reading and not self.closed:
            self._read(reading)

    def _read(self, reading: bool) -> None:
        if reading == self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _refuse(self, reason: str) -> None:
        self._stats.malformed += 1
        log.warning("connection closed", client=self.host, reason=reason)
        self.abort()

    def _stalled(self) -> None:
        self._stats.stalled += 1
        log.warning("client does not read its replies; dropped", client=self.host)
        self.abort()

    def _overdue(self) -> None:
        """Drops the connection, because others wait for the memory that it has held for too
        long."""
        self._stats.overdue += 1
        size = self.account.size
        log.warning("client is too slow for the memory it holds", client=self.host, bytes=size)
        self.abort()
