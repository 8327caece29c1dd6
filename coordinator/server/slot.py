"""The places of replies in the order of their connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from groupd.coordinator.runtime.steady import SteadyReply
from groupd.coordinator.server.long_replies import LongReply
from groupd.protocol.wire.encode import without_stops
from groupd.protocol.wire.header import RequestHeader, reply_frame, reply_header_version
from groupd.protocol.wire.registry import Api

if TYPE_CHECKING:
    from groupd.coordinator.server.connection import Connection

log = structlog.get_logger("groupd.connection")


class Slot:
    """The place of one reply in its connection's order."""

    __slots__ = ("api", "connection", "done", "frame", "header", "lease", "request_frame", "token")

    def __init__(
        self, connection: Connection, api: Api, header: RequestHeader, request_frame: bytes
    ) -> None:
        self.connection = connection
        self.request_frame = request_frame
        self.lease: SteadyReply | None = None
        self.api = api
        self.header = header
        self.token: int | None = None
        self.done = False
        self.frame: bytes | bytearray = b""

    def resolve(self, reply: Any, copies: int = 1) -> None:
        """Encode `reply` (None: no reply, as for acks=0) and send what is ready. `copies`: how
        often the reply is sent."""
        if self.connection.closed:
            return
        if reply is not None:
            try:
                body = self._encode(reply, copies)
            except Exception as error:  # noqa: BLE001 - logged there
                self._lose(error)
                return
            if body is None:
                return
            self._frame(body, copies)
        self.done = True
        self.connection.slot_done(self)

    def _encode(self, reply: Any, copies: int) -> bytes | bytearray | None:
        """The body; None if it is long and comes later."""
        version = self.header.api_version
        long_replies = self.connection.long_replies
        if self.api.steps is None or long_replies is None:
            return self.api.encode(reply, version)
        steps = self.api.steps(reply, version)
        try:
            next(steps)
        except StopIteration as ended:
            body: bytearray = ended.value
            return body
        if long_replies.full:
            return without_stops(steps)
        self.connection.hold()

        def done(result: bytearray | Exception) -> None:
            if self.connection.closed:
                return
            if isinstance(result, Exception):
                self._lose(result)
                return
            self._frame(result, copies)
            self.done = True
            self.connection.let_go(self)

        long_replies.add(LongReply(steps, lambda: not self.connection.closed, done))
        return None

    def _lose(self, error: Exception) -> None:
        """A bug of ours. Without its reply the client would wait; closed, it asks again."""
        version = self.header.api_version
        log.error("reply cannot be encoded", api=self.api.name, version=version, exc_info=error)
        self.connection.abort()

    def _frame(self, body: bytes | bytearray, copies: int) -> None:
        version = self.header.api_version
        header_version = reply_header_version(self.api, version)
        frame = reply_frame(self.header.correlation_id, header_version, body)
        self.frame = frame if copies == 1 else frame * copies
        if self.lease is not None:
            api = (self.header.api_key, version)
            self.connection.steady.put(self.request_frame, self.frame, self.lease, api)

    def resolve_frame(self, frame: bytes) -> None:
        """A whole reply that another process has made for the request; empty: no reply."""
        if not self.connection.closed:
            self.frame = frame
            self.done = True
            self.connection.slot_done(self)

    def on_steady(self, lease: SteadyReply) -> None:
        """The reply to come may be repeated for the same request."""
        self.lease = lease


class ReadySlot:
    """The place of a reply that is there already."""

    __slots__ = ("done", "frame")

    def __init__(self, frame: bytes) -> None:
        self.done = True
        self.frame = frame
