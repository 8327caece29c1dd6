"""The channel between the main process and one worker: calls with answers, in both directions.

A frame is a length (4 bytes), a kind (1), the number of the call (4) and a body. A CALL's body
begins with its operation (1 byte); ANSWER and FAILURE carry the number of the call they belong to.
Calls are pipelined, and answers come in any order. What stands in the bodies is in `messages`.

Limits: the size of a frame, the calls that wait for their answer, the bytes that wait for the
socket. A call from this end that would exceed one is refused with ChannelBusy. A peer that exceeds
one is cut off, since it is not the process that it should be. When the channel ends, for whatever
reason, every call that waits fails with ChannelLost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from struct import Struct
from struct import error as StructError
from typing import cast

import structlog

from groupd.coordinator.workers.messages import WorkerOperation, decode_failure, encode_failure
from groupd.protocol.wire.framing import FrameError, FrameSplitter
from groupd.storage.log import LogUnavailable

log = structlog.get_logger("groupd.workers")

FRAME_BYTES_MAX = 192 * 1024 * 1024
"""Above the largest request of a client and the largest append."""
CALLS_MAX = 20_000
UNSENT_BYTES_MAX = 256 * 1024 * 1024

CALL, ANSWER, FAILURE = range(3)
_HEAD = Struct(">iBI")
_INNER = Struct(">BI")
_CALL_HEAD = Struct(">iBIB")

Answer = bytes | Awaitable[bytes]
Serve = Callable[[WorkerOperation, bytes], Answer]
"""(operation, body) -> the answer, now or later. Whatever it raises is the caller's failure."""


class ChannelLost(LogUnavailable):
    """The other process is gone or was cut off: what the call has done there is unknown."""


class ChannelBusy(LogUnavailable):
    """Too much is under way; nothing was sent."""


class Channel(asyncio.Protocol):
    """One end. `lost` is set when it has ended; `on_lost` is called once, then."""

    def __init__(
        self,
        serve: Serve,
        on_lost: Callable[[], None] = lambda: None,
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        calls_max: int = CALLS_MAX,
        unsent_bytes_max: int = UNSENT_BYTES_MAX,
    ) -> None:
        self.lost = asyncio.Event()
        self._serve = serve
        self._on_lost = on_lost
        self._frame_bytes_max = frame_bytes_max
        self._calls_max = calls_max
        self._unsent_bytes_max = unsent_bytes_max
        self._splitter = FrameSplitter(frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._next_call = 0
        self._serving: set[asyncio.Future[bytes]] = set()

    # The socket ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._splitter.feed(data)
            for frame in iter(self._splitter.next, None):
                self._received(frame)
        except FrameError as error:
            self._cut_off(str(error))
        except (ValueError, LookupError, StructError) as error:
            self._cut_off(f"malformed frame: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.lost.is_set():
            return
        self.lost.set()
        calls, self._calls = self._calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(ChannelLost("the other process is gone"))
        for task in list(self._serving):
            task.cancel()
        self._on_lost()

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """End the channel at once; `lost` follows."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """End the channel once what is written has left."""
        if self._transport is not None:
            self._transport.close()

    # Calls --------------------------------------------------------------------------------

    def start_call(self, operation: WorkerOperation, body: bytes = b"") -> asyncio.Future[bytes]:
        """Send now; the future has the answer. It fails with what the other side raised, or
        ChannelLost. Raises ChannelLost, ChannelBusy."""
        if self._transport is None or self.lost.is_set():
            raise ChannelLost("the other process is gone")
        if len(self._calls) >= self._calls_max:
            raise ChannelBusy(f"{self._calls_max} calls are under way")
        if len(body) + _INNER.size + 1 > self._frame_bytes_max:
            raise ChannelBusy(f"{operation.name}: {len(body)} bytes are too many")
        if self.unsent_bytes > self._unsent_bytes_max:
            raise ChannelBusy("the other process does not read")
        number = self._next_call
        self._next_call = (number + 1) & 0xFFFFFFFF
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._calls[number] = future
        head = _CALL_HEAD.pack(len(body) + _INNER.size + 1, CALL, number, operation)
        self._transport.write(head + body)
        return future

    async def call(self, operation: WorkerOperation, body: bytes = b"") -> bytes:
        """Does what `start_call` does, and waits for the answer."""
        return await self.start_call(operation, body)

    def _received(self, frame: bytes) -> None:
        kind, number = _INNER.unpack_from(frame)
        if kind == CALL:
            self._called(number, WorkerOperation(frame[_INNER.size]), frame[_INNER.size + 1 :])
            return
        future = self._calls.pop(number, None)
        if future is None or future.done():
            return  # the caller does not wait any more
        if kind == ANSWER:
            future.set_result(frame[_INNER.size :])
        elif kind == FAILURE:
            future.set_exception(decode_failure(frame[_INNER.size :]))
        else:
            raise ValueError(f"kind {kind}")

    # Serving ------------------------------------------------------------------------------

    def _called(self, number: int, operation: WorkerOperation, body: bytes) -> None:
        if len(self._serving) >= self._calls_max:
            self._cut_off(f"more than {self._calls_max} calls")
            return
        try:
            answer = self._serve(operation, body)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            self._fail(number, operation, error)
            return
        if isinstance(answer, bytes):
            self._send(ANSWER, number, answer)
            return
        future = asyncio.ensure_future(answer)
        self._serving.add(future)
        future.add_done_callback(lambda done: self._served(number, operation, done))

    def _served(self, number: int, operation: WorkerOperation, done: asyncio.Future[bytes]) -> None:
        self._serving.discard(done)
        if done.cancelled():
            self._fail(number, operation, LogUnavailable("given up"))
        elif (error := done.exception()) is not None:
            self._fail(number, operation, error)
        else:
            self._send(ANSWER, number, done.result())

    def _fail(self, number: int, operation: WorkerOperation, error: BaseException) -> None:
        body, expected = encode_failure(error)
        if not expected:
            log.error("call failed", operation=operation.name, exc_info=error)
        self._send(FAILURE, number, body)

    def _send(self, kind: int, number: int, body: bytes) -> None:
        if self._transport is None:
            return
        if len(body) + _INNER.size > self._frame_bytes_max:
            kind = FAILURE
            body, _ = encode_failure(LogUnavailable(f"an answer of {len(body)} bytes"))
        self._transport.write(_HEAD.pack(len(body) + _INNER.size, kind, number) + body)
        if self.unsent_bytes > self._unsent_bytes_max:
            self._cut_off("it does not read its answers")

    def _cut_off(self, reason: str) -> None:
        log.error("channel is cut off", reason=reason)
        self.abort()
