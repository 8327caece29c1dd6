"""Kafka brokers without sockets: they stand behind the connections of `groupd.client`, read what is
sent, and answer when a test wants it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from groupd.client import connection
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, ApiVersionsRequest
from groupd.protocol.wire.apis import API_BY_KEY, API_RANGES
from groupd.protocol.wire.framing import FrameSplitter
from groupd.protocol.wire.header import parse_request_header, reply_frame


class FakeBroker:
    """`requests`: what has come, without ApiVersions; `versions`: the version of each.
    `answer(request)` makes a reply. After `hold` only ApiVersions is answered, until `release`.
    `chunk`: how many bytes of a reply come at once."""

    def __init__(
        self, answer: Callable[[Any], Any], ranges: Sequence[ApiRange] = API_RANGES
    ) -> None:
        self.answer = answer
        self.ranges = ranges
        self.requests: list[Any] = []
        self.versions: list[int] = []
        self.connections: list[FakeTransport] = []
        self.silent = False
        """Takes no connections."""
        self.mute = False
        """Takes connections, and answers nothing."""
        self.chunk = 1 << 20
        self.tls_error: OSError | None = None
        self._held: list[Callable[[], None]] | None = None

    def hold(self) -> None:
        self._held = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for send in held:
            send()

    @property
    def open(self) -> int:
        return sum(not one.closed for one in self.connections)

    def cut(self, error: Exception | None = None) -> None:
        for one in self.connections:
            if not one.closed:
                one.closed = True
                one.protocol.connection_lost(error)

    def take(self, transport: FakeTransport, frame: bytes) -> None:
        header = parse_request_header(frame, API_BY_KEY)
        api, version = API_BY_KEY[header.api_key], header.api_version
        request = api.decode(frame, header.body_offset, version, 1 << 20)
        if not isinstance(request, ApiVersionsRequest):
            self.requests.append(request)
            self.versions.append(version)

        def send() -> None:
            body = api.encode(self._reply(request), version, 0)
            tagged = version >= api.tagged_replies_from
            transport.answer(reply_frame(header.correlation_id, body, tagged=tagged))

        if self._held is None or isinstance(request, ApiVersionsRequest):
            if not self.mute:
                send()
        else:
            self._held.append(send)

    def _reply(self, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsReply(api_keys=tuple(self.ranges))
        return self.answer(request)


class FakeTransport(asyncio.Transport):
    def __init__(self, broker: FakeBroker, protocol: Any) -> None:
        super().__init__()
        self.broker, self.protocol = broker, protocol
        self.closed = False
        self._splitter = FrameSplitter(1 << 20)

    def write(self, data: Any) -> None:
        self._splitter.feed(bytes(data))
        for frame in iter(self._splitter.next, None):
            self.broker.take(self, frame)

    def answer(self, data: bytes | bytearray) -> None:
        """Deliver these bytes in the next turn of the loop."""
        for start in range(0, len(data), self.broker.chunk):
            part = bytes(data[start : start + self.broker.chunk])
            asyncio.get_running_loop().call_soon(self._deliver, part)

    def _deliver(self, data: bytes) -> None:
        if not self.closed:
            self.protocol.data_received(data)

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class FakeNetwork:
    """`brokers`: by port. `tried`: how many connections were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.brokers: dict[int, FakeBroker] = {}
        self.tried = 0
        monkeypatch.setattr(connection, "connected_socket", self._connected_socket)
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", self._connect)

    async def _connected_socket(self, _: str, port: int) -> int:
        self.tried += 1
        broker = self.brokers.get(port)
        if broker is None:
            raise ConnectionRefusedError(111, "Connect call failed")
        if broker.silent:
            await asyncio.Event().wait()
        return port

    async def _connect(
        self, factory: Callable[[], Any], *, sock: int, ssl: ssl.SSLContext | None, **_: Any
    ) -> Any:
        broker = self.brokers[sock]
        if broker.tls_error is not None:
            raise broker.tls_error
        protocol = factory()
        transport = FakeTransport(broker, protocol)
        broker.connections.append(transport)
        protocol.connection_made(cast(asyncio.Transport, transport))
        return transport, protocol


async def settle(turns: int = 40) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
