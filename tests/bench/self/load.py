"""Connections that keep a number of requests in flight and count the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from struct import Struct
from time import perf_counter
from typing import cast

_INT32 = Struct(">i")

Address = tuple[str, int]


class LoadConnection(asyncio.Protocol):
    """Sends frames from `source`, `window` at a time; `on_reply(frame)` sees each answer.

    `source` ends: the connection is done when the last answer is there.
    """

    def __init__(
        self, source: Iterator[bytes], window: int, on_reply: Callable[[bytes], None] | None
    ) -> None:
        self.replies = 0
        self.latencies: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._source = source
        self._window = window
        self._on_reply = on_reply
        self._buffer = bytearray()
        self._sent: list[float] = []
        self._in_flight = 0
        self._transport: asyncio.Transport | None = None
        self.stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def start(self) -> None:
        for _ in range(self._window):
            self._send()
        if self._in_flight == 0:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("the daemon closed the connection"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        offset, end = 0, len(buffer)
        while end - offset >= 4:
            length = _INT32.unpack_from(buffer, offset)[0]
            if end - offset - 4 < length:
                break
            if self._on_reply is not None:
                self._on_reply(bytes(buffer[offset + 4 : offset + 4 + length]))
            offset += 4 + length
            self._answered()
        del buffer[:offset]

    def close(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
        if self._transport is not None:
            self._transport.close()

    def _answered(self) -> None:
        self.replies += 1
        self._in_flight -= 1
        self.latencies.append(perf_counter() - self._sent.pop(0))
        if not self.stopped:
            self._send()
        if self._in_flight == 0:
            self._finish()

    def _send(self) -> None:
        frame = next(self._source, None)
        if frame is None or self._transport is None:
            self.stopped = True
            return
        self._in_flight += 1
        self._sent.append(perf_counter())
        self._transport.write(frame)

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def connect(
    address: Address,
    source: Iterator[bytes],
    window: int = 1,
    on_reply: Callable[[bytes], None] | None = None,
) -> LoadConnection:
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(
        lambda: LoadConnection(source, window, on_reply), *address
    )
    return protocol


async def run_for(connections: list[LoadConnection], seconds: float) -> float:
    """Start all, stop after `seconds`; the time until the last answer."""
    started = perf_counter()
    for connection in connections:
        connection.start()
    await asyncio.sleep(seconds)
    for connection in connections:
        connection.stopped = True
    await asyncio.gather(*(connection.done for connection in connections))
    return perf_counter() - started


async def run_all(connections: list[LoadConnection]) -> float:
    """Start all and wait until their sources are used up."""
    started = perf_counter()
    for connection in connections:
        connection.start()
    await asyncio.gather(*(connection.done for connection in connections))
    return perf_counter() - started
