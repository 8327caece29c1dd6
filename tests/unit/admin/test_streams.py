"""Streams of the admin port: who gives way when there is no place, slow clients, and errors within
one."""

from __future__ import annotations

import asyncio
import socket
import struct
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

import h11
import pytest
import uvloop
from structlog.testing import capture_logs

from groupd.coordinator.admin.admin_limits import REQUESTS_MAX
from groupd.coordinator.admin.http_messages import HttpRequest, HttpStream, StreamEvent
from groupd.coordinator.admin.http_wire import PIECE_BYTES, send_stream
from tests.support.loop_turns import until
from tests.unit.admin.servers import server_of

DEADLINE_S = 10.0
STREAMS = REQUESTS_MAX["streams"]


class Body(bytearray):
    """What an event is made of, seen by weak references."""


class Port:
    """`/live/NAME` is a stream of one event with its name, which then goes on without a word;
    `/live/broken` breaks off after it, `/live/busy` goes on with an event each turn."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.server = server_of(self._answer)
        self.address = ("", 0)

    def _answer(self, request: HttpRequest) -> HttpStream:
        name = request.path[1]
        body = Body(name.encode())
        self.sent = weakref.ref(body)
        return HttpStream(self._events(name), [(memoryview(body),)])

    async def _events(self, name: str) -> AsyncGenerator[StreamEvent, None]:
        self.open.append(name)
        try:
            if name == "broken":
                raise KeyError(name)
            while name == "busy":
                await asyncio.sleep(0)
                yield (memoryview(b"more"),)
            await asyncio.Event().wait()
        finally:
            self.open.remove(name)

    async def stream(self, name: str) -> asyncio.StreamReader:
        """The answer, once its first event is there."""
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(f"GET /live/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readline() == b"HTTP/1.1 200 \r\n"
            await reader.readuntil(name.encode())
        self._writers.append(writer)
        return reader

    def reset_last(self) -> None:
        """The client of the last stream resets its connection."""
        writer = self._writers.pop()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async def __aenter__(self) -> Port:
        self._writers: list[asyncio.StreamWriter] = []
        self.address = await self.server.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.close()
        for one in self._writers:
            one.close()


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    async with Port() as made:
        yield made


async def end_of(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(DEADLINE_S):
        try:
            await reader.read()
        except ConnectionResetError:
            return


async def test_a_new_stream_takes_the_place_of_the_one_that_is_open_longest(port: Port) -> None:
    readers = [await port.stream(f"s{number}") for number in range(STREAMS + 2)]
    for reader in readers[:2]:
        await end_of(reader)
    await until(lambda: len(port.open) == STREAMS)  # nobody works for those that gave way
    assert sorted(port.open) == sorted(f"s{number}" for number in range(2, STREAMS + 2))


async def test_nothing_is_kept_of_an_event_that_was_sent(port: Port) -> None:
    await port.stream("one")
    await until(lambda: port.sent() is None)


async def test_an_error_within_a_stream_ends_it_and_is_logged(port: Port) -> None:
    with capture_logs() as logs:
        await end_of(await port.stream("broken"))
        await until(lambda: logs)
    assert [one["event"] for one in logs] == ["a connection of the admin port has failed"]
    await until(lambda: len(port.server._limits["streams"]) == 0)
    await port.stream("next")


async def test_closing_the_port_ends_its_streams(port: Port) -> None:
    reader = await port.stream("one")
    await port.server.close()
    await end_of(reader)
    await until(lambda: port.open == [])


def test_a_client_that_goes_away_is_no_error() -> None:
    """On the loop of a daemon, which takes nothing for a connection that is closed."""

    async def leave() -> None:
        async with Port() as port:
            for _ in range(20):
                await port.stream("busy")
                port.reset_last()
                await until(lambda: port.open == [])

    with capture_logs() as logs, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(leave())
    assert logs == []


class SlowWriter:
    """Takes `takes_s` for each piece, by the time of the loop, which it moves on."""

    def __init__(self, takes_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pieces = 0
        self.is_closing = lambda: False
        self._takes_s = takes_s
        self._now_s = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self._now_s)

    def write(self, data: Any) -> None:
        self.pieces += len(data) >= PIECE_BYTES

    async def drain(self) -> None:
        self._now_s += self._takes_s
        for _ in range(3):  # timers that are due have their turn
            await asyncio.sleep(0)


async def send(writer: SlowWriter, event: StreamEvent, timeout_s: float) -> None:
    async def nothing() -> AsyncGenerator[StreamEvent, None]:
        return
        yield

    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"GET /live/groups HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.next_event()
    stream = HttpStream(nothing(), [event])
    await send_stream(
        connection, cast("asyncio.StreamWriter", writer), stream, timeout_s, head=False
    )


async def test_the_time_for_an_event_grows_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    event = (memoryview(bytes(20 * PIECE_BYTES)),)
    writer = SlowWriter(9.0, monkeypatch)
    await send(writer, event, 10.0)
    assert writer.pieces == 20
    with pytest.raises(TimeoutError):
        await send(SlowWriter(11.0, monkeypatch), event, 10.0)
