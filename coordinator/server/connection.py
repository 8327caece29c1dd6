"""One client connection: takes frames and sends replies in the order of the requests.

Rules:
- A request gets a slot when it starts. Replies are sent from the front of the queue of slots.
- A request starts when every request before it has been answered or is of the same lane (`lanes`),
  so that it sees their effects. No request starts while a reply is being encoded in slices.
- With too many slots or too many unsent bytes, the socket is not read any further. A client that
  reads none of its replies for `write_stall_timeout_ms` is disconnected.
- A malformed frame or an unsupported request closes this connection and logs one line.
- A reply never starts the next request of its connection in the same call, because the caller that
  answers still has other work to finish.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

import structlog

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.lanes import lane_of
from groupd.coordinator.server.long_replies import LongReplies
from groupd.coordinator.server.slot import Slot
from groupd.coordinator.server.stored_replies import StoredReplies
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.framing import FrameError, FrameSplitter
from groupd.protocol.wire.header import RequestHeader, parse_request_header
from groupd.protocol.wire.registry import Api, MalformedRequest

log = structlog.get_logger("groupd.connection")

API_VERSIONS_KEY = 18


class Requests(Protocol):
    """Where decoded requests go: the front end of the broker, or a layer before it."""

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        """Handle `request`; `slot` is answered once, now or later."""
        ...

    def forget(self, slot: Slot) -> None:
        """The client is gone: the reply may be dropped, but the effect of the request stays."""
        ...


class Connection(asyncio.Protocol):
    """The asyncio protocol of one accepted socket. `registry`: all connections of the listener."""

    make_slot: Callable[..., Slot] = Slot

    def __init__(self, config: CoordinatorConfig, clock: Clock, requests: Requests,
                 stats: ConnectionStats, registry: set[Connection]) -> None:  # fmt: skip
        self._config = config
        self._clock = clock
        self._requests = requests
        self._stats = stats
        self._registry = registry
        self._splitter = FrameSplitter(config.socket_request_max_bytes)
        self._partial = self._splitter.buffer
        self._transport: asyncio.Transport | None = None
        self._frames: deque[bytes] = deque()
        self._slots: deque[Slot] = deque()
        self._unanswered = 0
        self._held = 0
        self.long_replies: LongReplies | None = None
        self.stored_replies = StoredReplies(stats)
        self._quiet = True
        """No request is under way, so the next one may have a stored reply."""
        self._reading = True
        self._draining = False
        self._pumping = False
        self._stopped = False
        self._written = 0
        self._stall_mark = 0
        self._stall_timer: TimerHandle | None = None
        self.closed = False
        self.host = ""
        self.software = ("", "")
        self.active = True
        """Data has come or left since the listener last looked."""
        self.idle_since_ms = 0

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._slots and not self._frames

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = f"/{peer[0]}" if peer else "/unknown"
        if len(self._registry) >= self._config.max_connections:
            self._stats.refused += 1
            log.warning("connection refused", client=self.host, limit="max.connections")
            self.abort()
            return
        self._registry.add(self)
        self._stats.accepted += 1
        self._stats.open += 1
        self._transport.set_write_buffer_limits(high=self._config.write_buffer_max_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._quiet = False
        if self in self._registry:
            self._registry.discard(self)
            self._stats.open -= 1
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        for slot in self._slots:
            if not slot.done:
                self._requests.forget(slot)
        self._slots.clear()
        self._frames.clear()
        # Breaks reference cycles: the garbage collector may never look at this object again.
        self._transport = None
        self.stored_replies.clear()

    def data_received(self, data: bytes) -> None:
        self.active = True
        if self._quiet:
            reply = self.stored_replies.reply_to(data)
            if reply is not None:
                self._stats.bytes_in += len(data)
                self._write(reply)
                return
        if self.closed or self._stopped:
            return
        self._quiet = False
        self._stats.bytes_in += len(data)
        try:
            self._frames.extend(self._splitter.feed(data))
        except FrameError as error:
            self._frames.extend(error.frames)
            self._pump()
            if not self.closed:
                self._refuse(str(error))
            return
        self._pump()

    def pause_writing(self) -> None:
        self._draining = True
        self._send_ready()
        self._watch_stall()

    def resume_writing(self) -> None:
        self._draining = False
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self._pump()

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

    def stop_reading(self) -> None:
        """For shutdown: takes no new requests, but still answers those under way."""
        self._stopped = True
        self._quiet = False
        self._frames.clear()
        self._set_reading(False)

    def slot_done(self, slot: Slot) -> None:
        """`slot` has its reply: sends every reply that is ready, in order."""
        self.active = True
        self._unanswered -= 1
        if self._pumping:
            return
        self._send_ready()
        if self._frames:
            self._soon(self._pump)

    @property
    def held(self) -> bool:
        """Whether a reply is being encoded in slices."""
        return self._held > 0

    def hold(self) -> None:
        """The reply of a slot comes in slices: starts no request until `let_go`."""
        self._held += 1

    def let_go(self, slot: Slot) -> None:
        """Like `slot_done`, for a slot that held the connection."""
        self._held -= 1
        self.slot_done(slot)

    def _soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    def _pump(self) -> None:
        """Starts the requests that may start and writes the replies that became ready in one go.
        Repeats this if the writing made room, since requests answered at once leave no other event
        to continue."""
        while not self.closed:
            started = False
            self._pumping = True
            try:
                while self._frames and self._may_start():
                    self._start(self._frames.popleft())
                    started = True
            finally:
                self._pumping = False
            if not self.closed:
                self._send_ready()
            if not (started and self._frames):
                return

    def _may_start(self) -> bool:
        """Whether the next frame may start."""
        if self._draining or self._held or self.closed:
            return False
        if self._unanswered:
            # All unanswered requests are of one lane, so the newest one tells it.
            lane = lane_of(self._frames[0])
            if lane is None or lane != lane_of(self._slots[-1].request_frame):
                return False
        return len(self._slots) < self._config.queued_max_requests

    def _start(self, frame: bytes) -> None:
        self._unanswered += 1
        try:
            header = parse_request_header(frame, API_BY_KEY)
            api = API_BY_KEY.get(header.api_key)
            if api is None or not api.min_version <= header.api_version <= api.max_version:
                if header.api_key != API_VERSIONS_KEY:
                    self._refuse(f"unsupported API {header.api_key} v{header.api_version}")
                    return
                self._answer_unknown_api_versions(header)
                return
            request = api.decode(frame, header.body_offset, header.api_version)
        except MalformedRequest as error:
            self._refuse(str(error))
            return
        self._stats.requests[header.api_key, header.api_version] += 1
        slot = self.make_slot(self, api, header, frame, request)
        self._slots.append(slot)
        self._requests.submit(slot, api, request)

    def _answer_unknown_api_versions(self, header: RequestHeader) -> None:
        # A client may always ask with a newer version: the v0 body with the error tells it ours.
        api = API_BY_KEY[API_VERSIONS_KEY]
        known = header._replace(api_version=0)
        slot = self.make_slot(self, api, known, b"")
        self._slots.append(slot)
        slot.send(api.failure(None, ErrorCode.UNSUPPORTED_VERSION, None))

    def _send_ready(self) -> None:
        """Writes the replies that are ready at the front. Reads on only while there is room for
        more requests and replies."""
        slots = self._slots
        ready = []
        while slots and slots[0].done:
            ready.append(slots.popleft().frame)
        data = b"".join(ready)
        if data and self._transport is not None:
            self._write(data)
        waits = slots or self._frames
        self._quiet = not (waits or self._partial or self._stopped or self.closed)
        if self._quiet and self._reading and not self._draining:
            return
        room = len(slots) < self._config.queued_max_requests
        self._set_reading(room and not (self._draining or self._frames or self._stopped))

    def _write(self, data: bytes | bytearray) -> None:
        assert self._transport is not None
        self._stats.bytes_out += len(data)
        self._written += len(data)
        self._transport.write(data)

    def _set_reading(self, reading: bool) -> None:
        if reading == self._reading or self.closed or self._transport is None:
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

    def _watch_stall(self) -> None:
        self._stall_mark = self._sent()
        deadline = self._clock.now().monotonic_ms + self._config.write_stall_timeout_ms
        self._stall_timer = self._clock.call_at(deadline, self._stalled)

    def _sent(self) -> int:
        """The number of bytes of replies that have left this process."""
        assert self._transport is not None
        return self._written - self._transport.get_write_buffer_size()

    def _stalled(self) -> None:
        if self._sent() > self._stall_mark:
            self._watch_stall()  # the client is slow, but it reads
            return
        self._stats.stalled += 1
        log.warning("client does not read its replies; dropped", client=self.host)
        self.abort()
