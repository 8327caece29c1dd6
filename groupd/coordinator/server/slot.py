"""A slot: the place of one reply in the order of its connection. Also when stored replies are
valid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import structlog

from groupd.coordinator.core import slices
from groupd.coordinator.core.types import Access
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.waiting import StoredReplyValidity, Waiter
from groupd.coordinator.server.byte_budget import FREE_BYTES, Account
from groupd.coordinator.server.client_session import ClientSession
from groupd.coordinator.server.metering import RequestMeter
from groupd.coordinator.server.stored_replies import StoredReplies
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.header import RequestHeader, reply_frame
from groupd.protocol.wire.registry import Api, ReplySteps

GROWTH = 64 * 1024
"""A long reply reserves memory in steps of this many bytes."""

log = structlog.get_logger("groupd.connection")

Watcher = tuple[Callable[[], bool], Callable[[], None]]
"""Two functions. The first is called before a stored reply is sent, and returns False if the
request must be handled instead. The second is called when the stored reply is sent."""


class ClientConnection(Protocol):
    """What a slot, the handlers of its request, and the login need of the connection
    (`connection.Connection`)."""

    closed: bool
    host: str
    session: ClientSession
    """Who the client is; set once the connection is made."""
    software: tuple[str, str]
    """Name and version of the client's library from ApiVersions; "" if the client sent none."""
    long_work: LongWork
    """Encodes long replies in slices."""
    stored_replies: StoredReplies
    account: Account
    """The memory that the connection holds."""

    def slot_done(self, slot: Slot) -> None:
        """Called when `slot` has its reply: sends every reply that is ready, in order."""
        ...

    def block(self) -> None:
        """Starts no request until the slot that called this is done, or until `unblock`."""
        ...

    def unblock(self) -> None:
        """Ends a `block` that no slot has called."""
        ...

    def identify(self, principal: str) -> None:
        """Makes `principal` the client of all requests from now on."""
        ...

    def limit_frames(self, most: int) -> None:
        """Sets the largest size of a frame from now on, in bytes."""
        ...

    def write(self, data: bytes | bytearray) -> None:
        """Sends bytes that are not the reply of a slot, behind the replies that are ready."""
        ...

    def stop_reading(self) -> None:
        """Takes no new requests, but still answers those under way."""
        ...

    def finish(self) -> None:
        """Closes the connection so that the client can still read what was written."""
        ...

    def abort(self) -> None:
        """Drops the connection now."""
        ...


class Slot(Waiter):
    """A request of a connection, and the place of its reply in the order of replies.
    `request_frame`: the bytes of the request without the length field; empty once they are not
    needed any more."""

    # What most requests do not need has its value from the class.
    done = False
    hangs_up = False
    """Whether the connection is closed in place of a reply."""
    blocks = False
    """Whether the connection starts no other request until this one is done."""
    frame: bytes | bytearray = b""
    """The reply, once it is done."""
    size = 0
    """The bytes that the slot counts for in the memory of its connection."""
    reserved = 0
    """The part of `size` for a reply that is being made."""
    lane: str | None = None
    """The lane of the request; set when `request_frame` is not kept."""
    validity: StoredReplyValidity | None = None
    rights: tuple[Access, int] | None = None
    """The client's rights, and their version when the request was handled; None if its rights do
    not change."""
    watchers: list[Watcher] | None = None
    """The functions of layers between connections and broker that must know of repeated
    requests."""
    meter: RequestMeter | None = None
    """Counts how much the request uses of its client's quotas; None if there are no quotas."""
    throttle_ms = 0
    """How long the client has to wait after this request, in ms."""
    stand_in: Waiter | None = None
    """The waiter that a layer has given to the broker in place of this slot."""

    def __init__(
        self,
        connection: ClientConnection,
        api: Api,
        header: RequestHeader,
        request_frame: bytes,
        request: Any = None,
    ) -> None:
        self.request = request
        self.failure = api.failure
        self.connection = connection
        self.api = api
        self.header = header
        self.request_frame = request_frame

    def may_repeat(self, validity: StoredReplyValidity) -> None:
        if self.meter is not None and self.meter.counts_requests:
            return
        if self.rights is not None:
            validity = RightsReplyValidity(validity, *self.rights)
        self.validity = (
            validity if self.watchers is None else WatchedReplyValidity(validity, self.watchers)
        )

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        # The validity was that of the reply which this refusal replaces.
        self.validity = None
        super().fail(code, message)

    def forget(self) -> None:
        # A handler may keep the slot of a closed connection for as long as a rebalance lasts.
        self.request_frame = b""
        self.request = None
        super().forget()

    def send(self, reply: Any, copies: int = 1) -> None:
        """Encodes `reply` (None: no reply, as for acks=0) and sends what is ready. `copies`: how
        often the reply is sent."""
        connection = self.connection
        if connection.closed:
            return
        try:
            if self.meter is not None:
                self.throttle_ms = self.meter.settle(reply)
            if reply is not None:
                body = self._encode(reply, copies)
                if body is None:
                    return  # the reply is long and is sent later
                self._frame(reply, body, copies)
            self.done = True
            connection.slot_done(self)
        except Exception as error:  # noqa: BLE001 - logged there
            self._cannot_send(error)

    def block_connection(self) -> None:
        if not self.blocks:
            self.blocks = True
            self.connection.block()

    def reserve_bytes(self, wanted: int) -> int:
        self.set_reserved_bytes(0)
        account = self.connection.account
        room = min(wanted, max(FREE_BYTES, account.left))
        self.set_reserved_bytes(room)
        return room

    def set_reserved_bytes(self, size: int) -> None:
        by = size - self.reserved
        if by and not self.connection.closed:
            self.reserved = size
            self.size += by
            self.connection.account.grow(by)

    def on_memory_short(self, callback: Callable[[], None] | None) -> None:
        self.connection.account.on_memory_short = callback

    def on_disconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self.connection.session.on_disconnect(callback)

    def _encode(self, reply: Any, copies: int) -> bytes | bytearray | None:
        """The body of the reply; None if it is long and is encoded in slices."""
        version = self.header.api_version
        if self.api.steps is None:
            return self.api.encode(reply, version, self.throttle_ms)
        steps = self.api.steps(reply, version, self.throttle_ms)
        writer, work = steps
        for _ in work:
            self.block_connection()
            self._encode_on(reply, steps, copies)
            return None
        return writer.body()

    def _encode_on(self, reply: Any, steps: ReplySteps, copies: int) -> None:
        """Encodes while there is room for the reply, then waits for more."""
        connection = self.connection

        def done(result: bytearray | Exception | None) -> None:
            if connection.closed:
                return
            if result is None:
                return  # it goes on when there is room
            try:
                if isinstance(result, Exception):
                    raise result
                self._frame(reply, result, copies)
                self.done = True
                connection.slot_done(self)
            except Exception as error:  # noqa: BLE001 - logged there
                self._cannot_send(error)

        in_room = self._in_room(steps, partial(self._encode_on, reply, steps, copies))
        connection.long_work.add_reply(in_room, done, lambda: not connection.closed)

    def _in_room(self, steps: ReplySteps, go: Callable[[], None]) -> slices.Steps[bytearray | None]:
        """Works on `steps`, as long work. Returns the body, or None where there is no room to go
        on; `go` is called when there is."""
        account, (writer, work) = self.connection.account, steps
        for _ in work:
            size = len(writer.buffer)
            if size > self.reserved:
                if not account.may_continue(size + GROWTH - self.reserved, go):
                    return None
                self.set_reserved_bytes(size + GROWTH)
            yield
        return writer.body()

    def on_no_reply(self) -> None:
        # Without a reply the client would wait. When it is disconnected, it asks again.
        self.connection.abort()

    def hang_up(self) -> None:
        connection = self.connection
        if not connection.closed:
            reason = f"{self.api.name} without a reply has failed"
            log.info("connection closed", client=connection.host, reason=reason)
            self.hangs_up = True
            self.done = True
            connection.slot_done(self)

    def _cannot_send(self, error: Exception) -> None:
        """Drops the connection after a bug of ours, or when there is no memory left."""
        version = self.header.api_version
        log.error("reply cannot be sent", api=self.api.name, version=version, exc_info=error)
        self.on_no_reply()

    def _frame(self, reply: Any, body: bytes | bytearray, copies: int) -> None:
        header = self.header
        version = header.api_version
        tagged = version >= self.api.tagged_replies_from
        frame = reply_frame(header.correlation_id, body, tagged=tagged)
        self.frame = frame if copies == 1 else frame * copies
        if self.meter is not None:
            self.meter.framed(reply, len(frame))
        if self.validity is not None and self.request_frame:
            api = (header.api_key, version)
            self.connection.stored_replies.put(self.request_frame, frame, self.validity, api)


class RightsReplyValidity:
    """The reply is valid until the rights of the client may have changed (ADR 10). `version`: the
    version of the rights when they were checked, before the reply was made."""

    __slots__ = ("_access", "_validity", "_version")

    def __init__(self, validity: StoredReplyValidity, access: Access, version: int) -> None:
        self._validity = validity
        self._access = access
        self._version = version

    def renew(self) -> bool:
        return self._access.version == self._version and self._validity.renew()


class WatchedReplyValidity:
    """The reply is valid while all watchers allow it. They are called when it is sent again."""

    __slots__ = ("_validity", "_watchers")

    def __init__(self, validity: StoredReplyValidity, watchers: list[Watcher]) -> None:
        self._validity = validity
        self._watchers = watchers

    def renew(self) -> bool:
        if not all(allows() for allows, _ in self._watchers) or not self._validity.renew():
            return False
        for _, renewed in self._watchers:
            renewed()
        return True


class Requests(Protocol):
    """Takes decoded requests: the front end of the broker, or a layer before it."""

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        """Handles `request`. `slot` is answered now or later, once."""
        ...

    def forget(self, slot: Slot) -> None:
        """Forgets a client that is gone. The reply may be dropped, but the effect of the request
        stays."""
        ...
