"""Streams of events: one look serves all listeners, slow ones get everything, nobody means no
work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from groupd.coordinator.console.live import LiveTopics, event
from groupd.coordinator.server.http_stream import Event
from groupd.testing.clock import ManualClock


class Numbers:
    """A source whose events are numbers; `new` is what the next look finds."""

    cost_ms = 0.0

    def __init__(self) -> None:
        self.new: bytes | None = b"0"
        self.now = b""
        self.looks = 0
        self.broken = False

    async def look(self) -> Event | None:
        self.looks += 1
        if self.broken:
            raise ConnectionError("away")
        self.now = self.new or self.now
        return None if self.new is None else (memoryview(self.new),)

    async def whole(self) -> Event:
        return (memoryview(b"all up to "), memoryview(self.now))


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.topics = LiveTopics(self.clock)
        self.source = Numbers()

    async def listen(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self.topics.events("numbers", self.source)) as events:
            async for one in events:
                yield b"".join(one)

    async def look(self, new: bytes | None) -> None:
        """The next look, which finds `new`."""
        self.source.new = new
        before = self.source.looks
        while self.source.looks == before:
            self.clock.advance(1_000)
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_all_listeners_get_the_same_events_of_one_look() -> None:
    bench = Bench()
    first, second = bench.listen(), bench.listen()
    assert [await anext(first), await anext(second)] == [b"all up to 0"] * 2
    assert (bench.source.looks, bench.topics.count) == (1, 1)
    await bench.look(b"1")
    assert [await anext(first), await anext(second)] == [b"1"] * 2
    await bench.look(None)
    await bench.look(b"2")
    assert [await anext(first), await anext(second)] == [b"2"] * 2
    assert bench.source.looks == 4
    await bench.topics.close()


async def test_a_listener_that_missed_an_event_gets_everything() -> None:
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    await bench.look(b"1")
    await bench.look(b"2")
    assert await anext(listener) == b"all up to 2"
    await bench.look(b"3")
    assert await anext(listener) == b"3"
    await bench.topics.close()


async def test_nobody_listens_nobody_looks() -> None:
    bench = Bench()
    first, second = bench.listen(), bench.listen()
    await anext(first)
    await anext(second)
    await first.aclose()
    await bench.look(b"1")
    assert await anext(second) == b"1"
    await second.aclose()
    looks = bench.source.looks
    for _ in range(10):
        bench.clock.advance(100_000)
        await asyncio.sleep(0)
    assert (bench.source.looks, bench.topics.count) == (looks, 0)
    again = bench.listen()
    assert await anext(again) == b"all up to 1"
    assert bench.source.looks == looks + 1
    await bench.topics.close()


async def test_a_source_that_is_away_is_asked_again() -> None:
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    bench.source.broken = True
    await bench.look(b"1")
    bench.source.broken = False
    await bench.look(b"2")
    assert await anext(listener) == b"2"
    await bench.topics.close()


async def test_closing_ends_all_streams() -> None:
    bench = Bench()
    listener = bench.listen()
    await anext(listener)
    waiting = asyncio.ensure_future(anext(listener, None))
    await asyncio.sleep(0)
    await bench.topics.close()
    assert await waiting is None


def test_an_event_is_one_line_of_data() -> None:
    assert b"".join(event("changes", b'{"a":', b"1}")) == b'event: changes\ndata: {"a":1}\n\n'
