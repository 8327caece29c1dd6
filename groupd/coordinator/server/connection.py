"""One client connection: takes frames and sends replies in the order of the requests.

Rules:

- A request gets a slot when it starts. Replies are sent from the front of the queue of slots.
- A request starts when every request before it has been answered or is of the same lane
  (`decoding`), so that it sees their effects. No request starts while one is worked on in slices.
- Connections take turns in starting requests (`turns`). A frame is cut out of the received bytes
  when the frame before it has started.
- The socket is not read while too many slots or too many unsent bytes wait, or a whole frame. A
  client that reads its replies too slowly is disconnected (`outgoing`).
- A large frame is read, and a request is started, only if there is room for its bytes
  (`byte_budget`).
- A malformed frame or an unsupported request closes this connection and logs one line.
- Where clients must log in, frames go to the gate first (`sasl_gate`).
- `slot_done` never starts the next request itself, because its caller still has other work to
  finish, such as the other replies of a batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import structlog
from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.server.byte_budget import FREE_BYTES, ITEM_BYTES, SMALL, Account
from groupd.coordinator.server.client_session import PLAINTEXT, ClientSession, KafkaEndpoint
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.decoding import ITEMS_DECODED_INLINE, Decoded, lane_of
from groupd.coordinator.server.metering import Mute
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.outgoing import Outgoing
from groupd.coordinator.server.sasl_gate import SaslGate
from groupd.coordinator.server.shared_resources import (
    READ_BYTES,
    SharedBufferProtocol,
    SharedResources,
)
from groupd.coordinator.server.slot import Requests, Slot
from groupd.coordinator.server.stored_replies import StoredReplies
from groupd.coordinator.server.turns import SHORT_BYTES
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.framing import FrameError, FrameSplitter
from groupd.protocol.wire.header import RequestHeader, parse_request_header
from groupd.protocol.wire.registry import Api, LongRequest, MalformedRequest

log = structlog.get_logger("groupd.connection")

API_VERSIONS_KEY = 18


class Connection(SharedBufferProtocol):
    """The asyncio protocol of one accepted socket. `registry`: the connections of the listener.
    `shared`: what all sockets share.

    Each of these conditions keeps requests from being started; several may hold at a time:

    - `closed`: the connection ends. Its replies are dropped, too.
    - `_stopped`: the process stops, or the client has failed to log in. Requests under way are
      still answered.
    - `_in_line`: the client has sent more than its share of a turn, and waits for its next turn.
    - `_mute`: the client has used up a quota.
    - `_blocks` is not 0: a request is being worked on in slices, or a step of a login waits.
    - `_out.draining`: the client does not read its replies.
    - `_unanswered` is not 0, and the next request is of another lane.

    The socket is not read while one of them holds, but for `_blocks` and `_unanswered`: then it is
    read until a whole request, `_frame`, waits. A closed connection may be read as well: what comes
    is dropped."""

    make_slot: Callable[..., Slot] = Slot

    def __init__(self, config: CoordinatorConfig, clock: Clock, requests: Requests,
                 stats: ConnectionStats, registry: OpenConnections[Connection],
                 shared: SharedResources, endpoint: KafkaEndpoint = PLAINTEXT) -> None:  # fmt: skip
        self._config = config
        self._clock = clock
        self._requests = requests
        self._stats = stats
        self._registry = registry
        self._endpoint = endpoint
        self._metering = endpoint.metering
        self._quotas = endpoint.metering.quotas
        self.read_buffer = shared.read_buffer
        self._turns = shared.turns
        self._decoder = shared.decoder
        self.long_work = shared.work
        self.account = Account(shared.budget, self._soon, self._overdue)
        self._transport: asyncio.Transport | None = None
        self._out = Outgoing(config, clock, stats, self.account, self._stalled)
        self._splitter = FrameSplitter(config.socket_request_max_bytes)
        self._gate: SaslGate | None = None
        self.host = ""
        self.session: ClientSession
        self.software = ("", "")
        self.stored_replies = StoredReplies(stats)
        self._slots: deque[Slot] = deque()
        self._frame: bytes | None = None
        """The next request, which has not started."""
        self._unanswered = 0
        """How many requests have started and have no reply yet."""
        self._blocks = 0
        """How many pieces of work the next request must wait for."""
        self._mute: Mute | None = None
        self._in_line = False
        self._stopped = False
        self.closed = False
        self._starting = False
        """Whether requests are being started. Replies that are made meanwhile are sent after it."""
        self._at_rest = True
        """Whether no request is under way or on its way, so that the next one may get a stored
        reply. False if the connection is muted or ends."""
        self._reading = True
        self.active = True
        """Whether bytes have come, or a reply was made, since the listener last looked."""
        self.idle_since_ms = 0

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not (self._unanswered or self._slots or self._frame is not None or self._mute)

    # The socket ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = f"/{peer[0]}" if peer else "/unknown"
        self.session = self._endpoint.session(self.host)
        if (limit := self._registry.limit_reached(self.host)) is not None:
            self._stats.refused += 1
            log.warning("connection refused", client=self.host, limit=limit)
            self.abort()
            return
        self._registry.add(self)
        self._stats.accepted += 1
        self._stats.open += 1
        self._out.open(self._transport)
        if self._endpoint.rates is not None:
            wait_ms, refused = self._endpoint.rates.admit(self.host)
            if refused:
                self._turn_away(wait_ms)
            elif wait_ms:
                self._read(False)
                self._wait(self._clock, wait_ms)
        if (sasl := self._endpoint.sasl) is not None and not self.closed:
            self._gate = SaslGate(sasl, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        if self._registry.remove(self):
            self._stats.open -= 1
        self._out.close()
        under_way = [slot for slot in self._slots if not slot.done]
        for slot in under_way:
            self._requests.forget(slot)
        self.session.end()
        self.account.close(sum(slot.size for slot in under_way))
        self._slots.clear()
        self._splitter.clear()
        self._frame = None
        self._decoder.forget(self)
        self._turns.leave(self)
        if self._gate is not None:
            self._gate.close()
            self._gate = None
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None
        # This breaks reference cycles: the garbage collector may never look at this object again.
        self._transport = None
        self.stored_replies.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._splitter.missing > READ_BYTES and self.account.incoming:
            return self.read_buffer.large[: self._splitter.missing]
        return self.read_buffer.usual

    def data_received(self, data: bytes) -> None:
        self.active = True
        if self._at_rest and self.stored_replies.last is not None:
            reply = self.stored_replies.reply_to(data)
            if reply is not None:
                self._stats.bytes_in += len(data)
                self._out.write(reply)
                return
        self._stats.bytes_in += len(data)
        if not (self.closed or self._stopped):
            self._at_rest = False
            splitter = self._splitter
            if splitter.rest or splitter.announced:
                splitter.feed(data)
            else:
                splitter.rest = data  # as `feed`, without a call
        if len(data) >= READ_BYTES and self._turns.used_up():
            self._line_up()  # most likely there is more
        if self.closed or self._stopped:
            return
        if self.account.incoming and not self._splitter.missing:
            self.account.arrived()
        self._start_requests()

    def pause_writing(self) -> None:
        self._out.pause()
        self._send_ready()

    def resume_writing(self) -> None:
        self._out.resume()
        self._start_requests()

    def _read(self, reading: bool) -> None:
        if reading == self._reading or self._transport is None or self._transport.is_closing():
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def stop_reading(self) -> None:
        """Takes no new requests, but still answers those under way."""
        self._stopped = True
        self._at_rest = False
        self._splitter.clear()
        self._frame = None
        if not self.closed:
            self._read(False)

    def limit_frames(self, most: int) -> None:
        """Sets the largest size of a frame from now on, in bytes."""
        self._splitter.max_frame_bytes = most

    def _wait(self, clock: Clock, wait_ms: int) -> None:
        """Mutes the connection for `wait_ms`: no request is started and nothing is read."""
        self._at_rest = False
        if self._mute is None:
            self._mute = Mute(clock, self._waited)
        self._mute.for_ms(wait_ms)

    def _waited(self) -> None:
        self._mute = None
        self._soon(self._start_requests)

    # Replies ------------------------------------------------------------------------------

    def slot_done(self, slot: Slot) -> None:
        """Called when `slot` has its reply: sends every reply that is ready, in order."""
        self.active = True
        self._unanswered -= 1
        if slot.blocks:
            self._blocks -= 1
        account = self.account
        account.size += len(slot.frame) - slot.size
        if account.counted or account.size > FREE_BYTES:
            account.settle()
        if slot.throttle_ms and not self.closed:
            self._wait(self._metering.clock, slot.throttle_ms)
        if self._starting:
            return
        self._send_ready()
        if self._frame is not None:
            self._soon(self._start_requests)

    @property
    def blocked(self) -> bool:
        """Whether a piece of work keeps the next request from being started."""
        return self._blocks > 0

    def block(self) -> None:
        """Starts no request until the slot that called this is done, or until `unblock`."""
        self._blocks += 1

    def unblock(self) -> None:
        """Ends a `block` that no slot has called."""
        self._blocks -= 1
        self._soon(self._start_requests)

    def write(self, data: bytes | bytearray) -> None:
        """Sends bytes that are not the reply of a slot, behind the replies that are ready."""
        self._send_ready()
        if not self.closed:
            self._out.write(data)

    def identify(self, principal: str) -> None:
        """Sets the client that has logged in."""
        self.session.access = self._endpoint.access(principal, self.host)

    # Requests -----------------------------------------------------------------------------

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
            self._start_requests(True)

    def _start_requests(self, in_turn: bool = False) -> None:
        """Starts the requests that may start, and then writes the replies that became ready.

        Repeats this if the writing has made room for more requests: if all of them were answered at
        once, no later event would start the next ones. When this turn of the loop is used up, the
        connection gets in line with what is left. This is not checked for a single request, because
        the check costs time, but it is for a step of a login, which takes as long as a dozen
        heartbeats."""
        elapsed, until_ns = self._turns.elapsed, 0
        if self._in_line:
            self._send_ready()
            return
        try:
            while not self.closed:
                started = False
                self._starting = True
                while self._may_start():
                    gate = self._gate
                    login = gate is not None and gate.login
                    if not until_ns and (login or self._splitter.rest):
                        until_ns = self._turns.until(in_turn)
                    if until_ns and elapsed() > until_ns:
                        self._line_up()
                        break
                    frame, self._frame = self._frame, None
                    assert frame is not None
                    if gate is None or not gate.takes(frame):
                        self._start(frame)
                    started = True
                    if not until_ns:
                        break  # nothing more has come
                self._starting = False
                if not self.closed:
                    self._send_ready()
                if self._in_line or not (started and self._frame is not None):
                    return
        except FrameError as error:
            self._refuse(str(error))
        except Exception:  # noqa: BLE001 - logged there
            self._give_up()
        finally:
            self._starting = False

    def _may_start(self) -> bool:
        """Whether the next request has come as a whole and may start."""
        frame, splitter = self._frame, self._splitter
        if frame is None and not self.closed and (splitter.rest or splitter.announced):
            frame = self._frame = splitter.next()
        if frame is None or self._out.draining or self._blocks or self.closed or self._mute:
            return False
        if self._unanswered:
            # All unanswered requests are of one lane, so the newest one has it.
            lane, newest = lane_of(frame), self._slots[-1]
            if lane is None or lane != (newest.lane or lane_of(newest.request_frame)):
                return False
            account = self.account
            if account.counted and account.left < 0:
                return False
        elif len(frame) > SMALL and not self.account.may_start(len(frame), self._start_requests):
            return False
        return len(self._slots) < self._config.queued_max_requests

    def _start(self, frame: bytes) -> None:
        try:
            header = parse_request_header(frame, API_BY_KEY)
            if self._quotas.active and (owed_ms := self.session.owed_ms(self._metering, header)):
                self._frame = frame
                self._wait(self._metering.clock, owed_ms)
                return
            self._unanswered += 1
            if self.account.incoming == len(frame):
                self.account.started()
            api = API_BY_KEY.get(header.api_key)
            if api is None or not api.min_version <= header.api_version <= api.max_version:
                if header.api_key != API_VERSIONS_KEY:
                    self._refuse(f"unsupported API {header.api_key} v{header.api_version}")
                    return
                self._answer_unknown_api_versions(header)
                return
            request, items = api.counted(
                frame, header.body_offset, header.api_version, ITEMS_DECODED_INLINE
            )
        except LongRequest:
            assert api is not None
            self.block()
            self._decode_long(frame, header, api)
            return
        except MalformedRequest as error:
            self._refuse(str(error))
            return
        self._submit(frame, header, api, request, items)

    def _decode_long(self, frame: bytes, header: RequestHeader, api: Api) -> None:
        """Decodes the request in a thread, once there is room for as many items as it may have."""
        items = min(self._config.request_max_items, len(frame) // 2)
        size = 2 * len(frame) + ITEM_BYTES * items
        if not self._may_decode(size, partial(self._decode_long, frame, header, api)):
            return
        self.account.grow(size)
        done = partial(self._decoded, frame, header, api, size)
        self._decoder.in_thread(self, frame, header, api, done)

    def _may_decode(self, size: int, retry: Callable[[], None]) -> bool:
        return self.account.may_continue(size, retry)

    def _decoded(
        self, frame: bytes, header: RequestHeader, api: Api, size: int, found: Decoded | Exception
    ) -> None:
        """Goes on with a request after the thread has decoded it, or has failed to."""
        if self.closed:
            return
        self._blocks -= 1
        self.account.grow(-size)
        if isinstance(found, Exception):
            self._refuse(str(found) or type(found).__name__)
            return
        try:
            self._submit(frame, header, api, *found)
        except Exception:  # noqa: BLE001 - logged there
            self._give_up()
        self._soon(self._start_requests)

    def _submit(
        self, frame: bytes, header: RequestHeader, api: Api, request: Any, items: int
    ) -> None:
        """Gives the request its slot, and hands it over."""
        self._stats.requests[header.api_key, header.api_version] += 1
        slot = self.make_slot(self, api, header, frame, request)
        self._slots.append(slot)
        if self._quotas.active:
            slot.meter = self._metering.of(self.session.access.principal, header, len(frame))
        self._requests.submit(slot, api, request)
        if slot.meter is not None:
            slot.meter.stop()
        if not (slot.done or self.closed):
            size = 2 * len(frame) + ITEM_BYTES * items
            slot.size += size
            account = self.account
            account.size += size
            if account.size > FREE_BYTES:
                account.settle()
        if len(frame) > FREE_BYTES:
            slot.lane, slot.request_frame = lane_of(frame), b""

    def _answer_unknown_api_versions(self, header: RequestHeader) -> None:
        # A client may ask with a newer version than ours. The v0 body with the error names our
        # versions.
        api = API_BY_KEY[API_VERSIONS_KEY]
        known = replace(header, api_version=0)
        slot = self.make_slot(self, api, known, b"")
        self._slots.append(slot)
        slot.send(api.failure(None, ErrorCode.UNSUPPORTED_VERSION, None))

    def _send_ready(self) -> None:
        """Writes the replies that are ready at the front. Goes on reading only while there is room
        for more requests and replies."""
        slots, last = self._slots, False
        ready = []
        while slots and slots[0].done and not last:
            slot = slots.popleft()
            ready.append(slot.frame)
            last = slot.hangs_up
        data = ready[0] if len(ready) == 1 else b"".join(ready)
        if data and self._transport is not None:
            account = self.account
            account.size -= len(data)
            if account.counted:
                account.settle()
            self._out.write(data)
        if last:
            self.close()
        frame, announced = self._frame is not None, self._splitter.announced
        waits = self._unanswered or frame or self._splitter.rest or announced or self._mute
        self._at_rest = not (waits or self._stopped or self.closed)
        if self._at_rest and self._reading and not self._out.draining:
            return
        room = len(slots) < self._config.queued_max_requests
        if self._out.draining or frame or self._in_line or self._stopped or self._mute:
            room = False
        if room and announced:
            room = self.account.may_receive(announced, self._start_requests)
        if room != self._reading and not self.closed:
            self._read(room)

    def _soon(self, callback: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(callback)

    # The end ------------------------------------------------------------------------------

    def _end(self) -> None:
        self.closed = True
        self._at_rest = False

    def _turn_away(self, wait_ms: int) -> None:
        """Reads nothing for `wait_ms`, then closes the connection."""
        self._stats.refused += 1
        self._read(False)
        self._end()
        self._clock.call_at(self._clock.monotonic_ms() + wait_ms, self.abort)

    def abort(self) -> None:
        """Drops the connection now."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Closes the connection once everything that was written has been sent."""
        self._end()
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Closes the connection so that the client can read what was written. Input is read on and
        dropped, because unread input would turn the end into a reset."""
        self._end()
        if self._transport is not None:
            self._read(not self._in_line)
            self._out.finish()

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

    def _give_up(self) -> None:
        """Closes the connection after a bug of ours, or when there is no memory left. There may be
        no slot to answer, or a reply is lost."""
        log.exception("requests cannot be handled; connection closed", client=self.host)
        self.abort()
