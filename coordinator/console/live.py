"""What many pages look at, made once for all of them: server-sent events.

A topic (all groups, one group, the daemon's health) works only while somebody listens. Each time it
has looked at its source and found something new, it makes one event, and all listeners send the
same bytes. A listener that was too slow for an event is sent everything anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Protocol

import structlog

from groupd.coordinator.runtime.clock import Clock, pause
from groupd.coordinator.server.http_stream import Event

log = structlog.get_logger("groupd.console")

KEEP_ALIVE_S = 15.0
"""A listener hears something after so long at the latest, so that a lost connection is noticed."""

KEEP_ALIVE: Event = (memoryview(b": keep-alive\n\n"),)
PERIOD_MS = 1000
"""The shortest time between two looks."""

SHARE = 30
"""A topic rests for so many times as long as its last look costs, so that all topics together take
less than the thirtieth part of the time."""

LOOK_MS = 3.0
"""What a look costs however little there is to see. What it really takes is not measured: on a busy
machine that is mostly the work of others."""


class LiveSource(Protocol):
    """What a topic shows. `cost_ms`: about how much processor time the last look took for what it
    went through. Both methods raise an exception when it cannot be asked just now."""

    @property
    def cost_ms(self) -> float: ...

    async def look(self) -> Event | None:
        """An event with what is new since the last look; None if nothing is."""
        ...

    async def whole(self) -> Event:
        """All of it as of the last look, as an event."""
        ...


def event(name: str, *data: bytes | memoryview) -> Event:
    """A server-sent event. `data`: the parts of JSON in one line."""
    head = b"event: %s\ndata: " % name.encode()
    return tuple(map(memoryview, (head, *data, b"\n\n")))


class LiveTopic:
    """`topics`: all of them; the more there are, the longer each of them rests."""

    def __init__(self, source: LiveSource, clock: Clock, topics: LiveTopics) -> None:
        self.listeners = 0
        self.ended = False
        self._source = source
        self._clock = clock
        self._topics = topics
        self._version = 0
        self._last: Event = ()
        """The event that led to this version."""
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Lock()

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events for one listener, beginning with everything."""
        self.listeners += 1
        try:
            async with self._looked:
                if self._task is None:
                    await self._look()
                    self._task = asyncio.create_task(self._go_on())
            version = self._version
            yield await self._source.whole()
            while await self._wait(version):
                if version == self._version:
                    yield KEEP_ALIVE
                    continue
                missed, version = self._version - version, self._version
                yield self._last if missed == 1 else await self._source.whole()
        finally:
            self.listeners -= 1
            if not self.listeners:
                self.end()

    def end(self) -> None:
        """Stop looking; listeners are sent no more."""
        self.ended = True
        if self._task is not None:
            self._task.cancel()

    async def wake(self) -> None:
        """Let listeners see that it has ended."""
        async with self._news:
            self._news.notify_all()

    async def _wait(self, version: int) -> bool:
        """Wait for something new, or until it is time for a sign of life. False: it has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE_S), self._news:
                await self._news.wait_for(lambda: self.ended or self._version != version)
        return not self.ended

    async def _look(self) -> None:
        found = await self._source.look()
        if found is None:
            return
        self._version += 1
        self._last = found
        async with self._news:
            self._news.notify_all()

    async def _go_on(self) -> None:
        while True:
            cost_ms = LOOK_MS + self._source.cost_ms
            rest_ms = int(SHARE * self._topics.count * cost_ms)
            await pause(self._clock, max(PERIOD_MS, rest_ms))
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001 - the next look may find the source again
                log.warning("a page cannot be kept up to date", error=str(error))


class LiveTopics:
    """The topics that somebody listens to, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, LiveTopic] = {}

    @property
    def count(self) -> int:
        return len(self._topics)

    async def events(self, key: str, source: LiveSource) -> AsyncGenerator[Event, None]:
        """The events of a topic for one listener. `source`: makes the topic if there is none."""
        topic = self._topics.get(key)
        if topic is None or topic.ended:
            topic = self._topics[key] = LiveTopic(source, self._clock, self)
        try:
            async with aclosing(topic.events()) as found:
                async for one in found:
                    yield one
        finally:
            if not topic.listeners and self._topics.get(key) is topic:
                del self._topics[key]

    async def close(self) -> None:
        for topic in list(self._topics.values()):
            topic.end()
            await topic.wake()
