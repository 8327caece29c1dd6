"""Connections whose requests and replies are recorded, or compared with a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from groupd.coordinator.server.byte_budget import largest_share
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.server.stored_replies import ENTRIES_MAX
from groupd.protocol.wire.header import RequestHeader
from groupd.protocol.wire.registry import Api


class VirtualTransport:
    """The parts of an `asyncio.Transport` that a connection uses."""

    def __init__(self, host: str) -> None:
        self._host = host

    def get_extra_info(self, name: str) -> object:
        return (self._host, 0) if name == "peername" and self._host != "unknown" else None

    def set_write_buffer_limits(self, high: int) -> None:
        """Does nothing: there is no buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        """Does nothing: replies are compared where they are made."""

    def pause_reading(self) -> None:
        """Does nothing: frames come when the recording says so."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        """Does nothing: the loss of the connection is an entry of its own."""

    def close(self) -> None:
        """See `abort`."""


# Recording and replay use the same class, so that everything between a frame and its reply
# (decoding, repeated heartbeats, the order of slots) happens in a replay, too.


class RecordedTraffic(Protocol):
    """Receives the events of a connection. `act` is what the connection would do by itself."""

    def opened(self, connection: RecordedConnection) -> int:
        """The connection has been opened. Returns its number."""
        ...

    def frame(self, connection: RecordedConnection, frame: bytes, act: partial[None]) -> None: ...
    def lost(self, connection: RecordedConnection, act: partial[None]) -> None: ...
    def identified(
        self, connection: RecordedConnection, principal: str, act: partial[None]
    ) -> None: ...
    def closing(self, connection: RecordedConnection) -> None:
        """From now on the connection reads and sends nothing."""
        ...

    def replied(self, request: int, reply: Any, frame: bytes | bytearray, copies: int) -> None: ...


class RecordedSlot(Slot):
    """A slot of a recorded connection. `input`: the number of the input that brought the
    request."""

    __slots__ = ("input",)

    connection: RecordedConnection

    def __init__(
        self,
        connection: RecordedConnection,
        api: Api,
        header: RequestHeader,
        request_frame: bytes,
        request: Any = None,
    ) -> None:
        super().__init__(connection, api, header, request_frame, request)
        self.input = connection.input

    def _encode(self, reply: Any, copies: int) -> bytes | bytearray:
        """Encode the reply at once: a recording keeps the checksum of its bytes, so they must be
        made in the same place in a replay."""
        return self.api.encode(reply, self.header.api_version, self.throttle_ms)

    def reserve_bytes(self, wanted: int) -> int:
        """The memory that the request may use. It does not depend on other requests, because a
        replay cannot know what they hold."""
        return min(wanted, self.connection.largest_share)

    def set_reserved_bytes(self, size: int) -> None:
        """See `reserve_bytes`."""

    def on_memory_short(self, callback: Callable[[], None] | None) -> None:
        """See `reserve_bytes`."""

    def send(self, reply: Any, copies: int = 1) -> None:
        connection = self.connection
        if connection.closed:
            return
        super().send(reply, copies)
        if self.done:
            if self.validity is not None and self.request_frame:
                connection.remember(self.request_frame, reply)
            connection.traffic.replied(self.input, reply, self.frame, copies)


class RecordedConnection(Connection):
    """A connection that reports to `traffic`. `number`: the connection's number in the recording.
    `input`: the number of the input that it is working on."""

    make_slot = RecordedSlot

    def __init__(self, *args: Any, traffic: RecordedTraffic) -> None:
        super().__init__(*args)
        self.traffic = traffic
        self._loop = asyncio.get_running_loop()
        self.number = -1
        self.input = -1
        self._repeatable: dict[bytes, Any] = {}
        self.largest_share = largest_share(self._config)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not self.closed:
            self.number = self.traffic.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        act: partial[None] = partial(super().connection_lost, exc)
        if self.number < 0:
            act()
        else:
            self.traffic.lost(self, act)

    def identify(self, principal: str) -> None:
        self.traffic.identified(self, principal, partial(super().identify, principal))

    def abort(self) -> None:
        before = self.closed
        super().abort()
        self._closing(before)

    def close(self) -> None:
        before = self.closed
        super().close()
        self._closing(before)

    def finish(self) -> None:
        before = self.closed
        super().finish()
        self._closing(before)

    def _closing(self, before: bool) -> None:
        if not before and self.number >= 0:
            self.traffic.closing(self)

    def data_received(self, data: bytes) -> None:
        self._at_rest = False  # so that every frame comes here and becomes an input
        super().data_received(data)

    def _start(self, frame: bytes) -> None:
        self.traffic.frame(self, frame, partial(self._work_on, frame))

    def _work_on(self, frame: bytes) -> None:
        """Do for one frame what `Connection.data_received` does when nothing is recorded."""
        repeated = None
        if not self._slots:
            repeated = self.stored_replies.reply_to(len(frame).to_bytes(4, "big") + frame)
        if repeated is None:
            super()._start(frame)
            return
        self._out.write(repeated)
        self.traffic.replied(self.input, self._repeatable.get(_key(frame)), repeated, 1)

    def _may_decode(self, size: int, retry: Callable[[], None]) -> bool:
        """Always True, because a replay cannot know what other requests hold, and `retry` would
        be called outside of the input that brought the frame."""
        return True

    def _soon(self, callback: Callable[[], None]) -> None:
        # The code that answers runs inside the world, but the next frame must be an input of its
        # own.
        self._loop.call_soon(callback)

    def remember(self, request_frame: bytes, reply: Any) -> None:
        """Keep the reply, because it may be repeated for the same request."""
        if len(self._repeatable) >= ENTRIES_MAX:
            self._repeatable.clear()
        self._repeatable[_key(request_frame)] = reply


def _key(frame: bytes) -> bytes:
    return frame[:4] + frame[8:]
