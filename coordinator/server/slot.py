"""A slot: the place of one reply in the order of its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import structlog

from groupd.coordinator.runtime.waiting import Lease, Waiter
from groupd.coordinator.server.long_replies import LongReplies, LongReply
from groupd.coordinator.server.stored_replies import StoredReplies
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.header import RequestHeader, reply_frame, reply_header_version
from groupd.protocol.wire.registry import Api, without_stops

log = structlog.get_logger("groupd.connection")

Watcher = tuple[Callable[[], bool], Callable[[], None]]
"""Two functions for a stored reply. The first is asked before the reply is sent again (False: the
request must be handled), the second is told that it is sent again."""


class Client(Protocol):
    """The connection of a slot, as far as the slot and the handlers of its request need it."""

    closed: bool
    host: str
    software: tuple[str, str]
    """Name and version of the client's library from ApiVersions; "" if the client sent none."""
    long_replies: LongReplies | None
    """None: every reply is encoded at once."""
    stored_replies: StoredReplies

    def slot_done(self, slot: Slot) -> None:
        """`slot` has its reply: sends every reply that is ready, in order."""
        ...

    def hold(self) -> None:
        """The reply of a slot comes in slices: starts no request until `let_go`."""
        ...

    def let_go(self, slot: Slot) -> None:
        """Like `slot_done`, for a slot that held the connection."""
        ...

    def abort(self) -> None:
        """Drops the connection now."""
        ...


class Slot(Waiter):
    """A request of a connection, and the place of its reply. `request_frame`: the bytes of the
    request without the length field."""

    __slots__ = (
        "api",
        "connection",
        "done",
        "frame",
        "header",
        "lease",
        "request_frame",
        "stand_in",
        "watchers",
    )

    def __init__(
        self,
        connection: Client,
        api: Api,
        header: RequestHeader,
        request_frame: bytes,
        request: Any = None,
    ) -> None:
        super().__init__(request, api.failure)
        self.connection = connection
        self.api = api
        self.header = header
        self.request_frame = request_frame
        self.done = False
        self.frame: bytes | bytearray = b""
        """The reply, once it is done."""
        self.lease: Lease | None = None
        self.watchers: list[Watcher] | None = None
        """Layers between connections and broker that must be told of repeated requests."""
        self.stand_in: Waiter | None = None
        """What a layer has given to the broker in place of this slot."""

    def may_repeat(self, lease: Lease) -> None:
        self.lease = lease if self.watchers is None else WatchedLease(lease, self.watchers)

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        # The lease was given for the reply that a refusal now takes the place of.
        self.lease = None
        super().fail(code, message)

    def forget(self) -> None:
        # A handler may keep the slot of a closed connection for as long as a rebalance lasts.
        self.request_frame = b""
        super().forget()

    def send(self, reply: Any, copies: int = 1) -> None:
        """Encodes `reply` (None: no reply, as for acks=0) and sends what is ready. `copies`: how
        often the reply is sent."""
        connection = self.connection
        if connection.closed:
            return
        if reply is not None:
            try:
                body = self._encode(reply, copies)
            except Exception as error:  # noqa: BLE001 - logged there
                self._lose(error)
                return
            if body is None:
                return  # the reply is long and comes later
            self._frame(body, copies)
        self.done = True
        connection.slot_done(self)

    def send_frame(self, frame: bytes) -> None:
        """Sends a whole reply that another process has made for the request; if empty, sends no
        reply."""
        if not self.connection.closed:
            self.frame = frame
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
        """Handles a bug of ours. Without a reply the client would wait; disconnected, it asks
        again."""
        version = self.header.api_version
        log.error("reply cannot be encoded", api=self.api.name, version=version, exc_info=error)
        self.connection.abort()

    def _frame(self, body: bytes | bytearray, copies: int) -> None:
        header = self.header
        version = header.api_version
        header_version = reply_header_version(self.api, version)
        frame = reply_frame(header.correlation_id, header_version, body)
        self.frame = frame if copies == 1 else frame * copies
        if self.lease is not None:
            api = (header.api_key, version)
            self.connection.stored_replies.put(self.request_frame, frame, self.lease, api)


class WatchedLease:
    """A lease that watchers may end. They are told when it is renewed."""

    __slots__ = ("_lease", "_watchers")

    def __init__(self, lease: Lease, watchers: list[Watcher]) -> None:
        self._lease = lease
        self._watchers = watchers

    def renew(self) -> bool:
        if not all(allows() for allows, _ in self._watchers) or not self._lease.renew():
            return False
        for _, renewed in self._watchers:
            renewed()
        return True
