"""One client connection: takes frames and sends replies in the order of the requests.

Rules:

- A request gets a slot when it starts. Replies are sent from the front of the queue of slots.
- A request starts when every request before it has been answered or is of the same lane
  (`decoding`), so that it sees their effects. No request starts while one is worked on in slices.
- Connections take turns in starting requests (`turns`). A frame is cut out of the received bytes
  when the frame before it has started.
- With too many slots or too many unsent bytes, or while a whole frame waits, the socket is not read
  any further. A client that reads less than a quarter of the bytes within `write_stall_timeout_ms`
  is disconnected.
- Large frames are read, and requests started, only while there is room for what the connection
  holds (`byte_budget`).
- A malformed frame or an unsupported request closes this connection and logs one line.
- Where clients must log in, frames go to the gate first (`sasl_gate`).
- A reply never starts the next request of its connection in the same call, because the caller that
  answers still has other work to finish.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.server.byte_budget import FREE_BYTES, ITEM_BYTES, SMALL
from groupd.coordinator.server.client_session import PLAINTEXT, ClientSession, KafkaEndpoint
from groupd.coordinator.server.client_socket import ClientSocket
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.decoding import ITEMS_DECODED_INLINE, Decoded, lane_of
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.sasl_gate import SaslGate
from groupd.coordinator.server.shared_resources import READ_BYTES, SharedResources
from groupd.coordinator.server.slot import Requests, Slot
from groupd.coordinator.server.stored_replies import StoredReplies
from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.framing import FrameError
from groupd.protocol.wire.header import RequestHeader, parse_request_header
from groupd.protocol.wire.registry import Api, LongRequest, MalformedRequest

log = structlog.get_logger("groupd.connection")

API_VERSIONS_KEY = 18


class Connection(ClientSocket):
    """The asyncio protocol of one accepted socket. `registry`: the connections of the listener."""

    make_slot: Callable[..., Slot] = Slot

    def __init__(self, config: CoordinatorConfig, clock: Clock, requests: Requests,
                 stats: ConnectionStats, registry: OpenConnections[Connection],
                 shared: SharedResources, endpoint: KafkaEndpoint = PLAINTEXT) -> None:  # fmt: skip
        super().__init__(config, clock, stats, shared)
        self._config = config
        self._requests = requests
        self._registry = registry
        self._endpoint = endpoint
        self._metering = endpoint.metering
        self._quotas = endpoint.metering.quotas
        self._decoder = shared.decoder
        self.long_work = shared.work
        self._slots: deque[Slot] = deque()
        self._unanswered = 0
        self._blocks = 0
        self.stored_replies = StoredReplies(stats)
        self._pumping = False
        self._stopped = False
        self.session: ClientSession
        self._gate: SaslGate | None = None
        self.software = ("", "")
        self.active = True
        """Whether data has come or left since the listener last looked."""
        self.idle_since_ms = 0

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        frame = self._frame is not None
        return not (self._unanswered or self._slots or frame or self._mute)

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
            self._endpoint.rates.admit(self)
        if (sasl := self._endpoint.sasl) is not None and not self.closed:
            self._gate = SaslGate(sasl, self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._quiet = False
        if self._registry.remove(self):
            self._stats.open -= 1
        self._out.close()
        under_way = [slot for slot in self._slots if not slot.done]
        for slot in under_way:
            self._requests.forget(slot)
        self.session.end()
        self.account.close(sum(slot.size for slot in under_way))
        self._slots.clear()
        self._forget_frames()
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

    def data_received(self, data: bytes) -> None:
        self.active = True
        if self._quiet:
            reply = self.stored_replies.reply_to(data)
            if reply is not None:
                self._stats.bytes_in += len(data)
                self._out.write(reply)
                return
        self._stats.bytes_in += len(data)
        if not (self.closed or self._stopped):
            self._quiet = False
            self._splitter.feed(data)
        if len(data) >= READ_BYTES and self._turns.used_up():
            self._line_up()  # most likely there is more
        if self.closed or self._stopped:
            return
        if self.account.incoming and not self._splitter.missing:
            self.account.arrived()
        self._pump()

    def pause_writing(self) -> None:
        self._out.pause()
        self._send_ready()

    def resume_writing(self) -> None:
        self._out.resume()
        self._pump()

    def stop_reading(self) -> None:
        """Takes no new requests, but still answers those under way. Called at shutdown."""
        self._stopped = True
        self._quiet = False
        self._forget_frames()
        self._set_reading(False)

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
        if self._pumping:
            return
        self._send_ready()
        if self._frame is not None:
            self._soon(self._pump)

    @property
    def blocked(self) -> bool:
        """Whether a request is being worked on in slices."""
        return self._blocks > 0

    def block(self) -> None:
        """Starts no request until `slot` is done, because its work comes in slices, or until
        `unblock`."""
        self._blocks += 1

    def unblock(self) -> None:
        """Ends a `block` that no slot asked for."""
        self._blocks -= 1
        self._soon(self._pump)

    def write(self, data: bytes | bytearray) -> None:
        """Sends bytes that are not the reply of a slot, behind the replies that are ready."""
        self._send_ready()
        if not self.closed:
            self._out.write(data)

    def identify(self, principal: str) -> None:
        """Sets the client that has logged in."""
        self.session.access = self._endpoint.access(principal, self.host)

    def _pump(self, in_turn: bool = False) -> None:
        """Starts the requests that may start, and writes the replies that became ready in one go.

        Repeats this if the writing made room, because no other event follows when requests are
        answered at once. Gets in line if it has more requests than this turn of the loop has time
        for, or a step of a login, which takes as long as a dozen heartbeats."""
        elapsed, until_ns = self._turns.elapsed, 0
        if self._in_line:
            self._send_ready()
            return
        try:
            while not self.closed:
                started = False
                self._pumping = True
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
                self._pumping = False
                if not self.closed:
                    self._send_ready()
                if self._in_line or not (started and self._frame is not None):
                    return
        except FrameError as error:
            self._refuse(str(error))
        except Exception:  # noqa: BLE001 - logged there
            self._give_up()
        finally:
            self._pumping = False

    def _give_up(self) -> None:
        """Closes the connection after a bug of ours, or when there is no memory left. There may be
        no slot to answer, or a reply is lost."""
        log.exception("requests cannot be handled; connection closed", client=self.host)
        self.abort()

    def _may_start(self) -> bool:
        """Whether the next frame is there and may start."""
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
        elif len(frame) > SMALL and not self.account.may_start(len(frame), self._pump):
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

    def _may_decode(self, size: int, go: Callable[[], None]) -> bool:
        return self.account.may_continue(size, go)

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
        self._soon(self._pump)

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
        known = header._replace(api_version=0)
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
        self._quiet = not (waits or self._stopped or self.closed)
        if self._quiet and self._reading and not self._out.draining:
            return
        room = len(slots) < self._config.queued_max_requests
        if self._out.draining or frame or self._in_line or self._stopped or self._mute:
            room = False
        if room and announced:
            room = self.account.may_receive(announced, self._pump)
        self._set_reading(room)
