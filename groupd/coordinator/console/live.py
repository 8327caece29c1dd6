"""What many pages look at, made once for all of them: server-sent events.

A topic (all groups, one group, the daemon's health) works only while somebody listens. Each time it
has looked at its source and found something new, it makes one event, and all listeners send the
same bytes. A listener that was too slow for some events is sent these one after the other if they
are still there, and otherwise everything anew.

While a topic cannot look at its source, its listeners are told that what they know is old: the
event `stale` says why, and `fresh`, or any other event, that this is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from math import sqrt
from typing import Protocol

import structlog
from msgspec import json

from groupd.coordinator.admin.http_messages import Refusal, StreamEvent
from groupd.coordinator.runtime.clock import Clock, pause

log = structlog.get_logger("groupd.console")

KEEP_ALIVE_S = 15.0
"""A listener hears something after so long at the latest, so that a lost connection is noticed."""

KEEP_ALIVE: StreamEvent = (memoryview(b": keep-alive\n\n"),)
PERIOD_MS = 1000
"""The shortest time between two looks."""

SHARE = 30
"""All topics together take about the thirtieth part of the time of the loop."""

LOOK_MS = 3.0
"""What a look costs however little there is to see. What it really takes is not measured: on a busy
machine that is mostly the work of others."""

STALE_AFTER = 3
"""After so many looks in a row that have failed, a second apart, listeners are told. One alone may
be due to a shard that is just being loaded."""

RECENT_MAX = 60
RECENT_BYTES = 1 << 20
"""Slow listeners find at most this number of past changes, with at most this many bytes. The newest
change is always kept."""


class LiveSource(Protocol):
    """What a topic shows. `cost_ms`: about how much processor time the last look took for what it
    went through. `tells_changes`: whether events tell what has changed, rather than everything.
    Both methods raise an exception when the source cannot be asked just now."""

    @property
    def cost_ms(self) -> float: ...

    @property
    def tells_changes(self) -> bool: ...

    async def look(self) -> StreamEvent | None:
        """An event with what is new since the last look; None if nothing is."""
        ...

    async def whole(self) -> StreamEvent:
        """All of it as of the last look, as an event."""
        ...


def event(name: str, *data: bytes | memoryview) -> StreamEvent:
    """A server-sent event. `data`: the parts of JSON in one line."""
    head = b"event: %s\ndata: " % name.encode()
    return tuple(map(memoryview, (head, *data, b"\n\n")))


FRESH = event("fresh", b"{}")


class LiveTopic:
    """`topics`: all of them, which share the time for looks."""

    def __init__(self, source: LiveSource, clock: Clock, topics: LiveTopics) -> None:
        self.listeners = 0
        self.ended = False
        self._source = source
        self._clock = clock
        self._topics = topics
        self._version = 0
        self._recent: deque[StreamEvent] = deque()
        """The events that led to this version, the newest last; not always all of them."""
        self._failures = 0
        """Looks that have failed since the last one that has not."""
        self._stale: StreamEvent = ()
        """What tells listeners that looks fail; empty while they need not know."""
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Lock()

    @property
    def cost_ms(self) -> float:
        """What a look costs."""
        return LOOK_MS + self._source.cost_ms

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """The events for one listener, beginning with everything. Raises whatever the source raises
        at the first look of all."""
        self.listeners += 1
        try:
            async with self._looked:
                if self._task is None:
                    await self._look()
                    self._task = asyncio.create_task(self._go_on())
            version = self._version
            due = deque(await self._everything())
            while True:
                while due:
                    # A variable would keep it while this waits, once for each listener.
                    yield due.popleft()
                if not await self._wait(version):
                    return
                if version == self._version:
                    due.append(KEEP_ALIVE)
                    continue
                missed, version = self._version - version, self._version
                due.extend(self._last(missed) or await self._everything())
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

    async def _everything(self) -> Sequence[StreamEvent]:
        whole = await self._source.whole()
        return (whole, self._stale) if self._stale else (whole,)

    def _last(self, count: int) -> Sequence[StreamEvent]:
        """The last events; none if there are not so many any more."""
        return list(self._recent)[-count:] if count <= len(self._recent) else ()

    async def _wait(self, version: int) -> bool:
        """Wait for something new, or until it is time for a sign of life. False: it has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE_S), self._news:
                await self._news.wait_for(lambda: self.ended or self._version != version)
        return not self.ended

    async def _look(self) -> None:
        found = await self._source.look()
        self._failures = 0
        if self._stale:
            self._stale = ()
            if found is None:
                found = FRESH if self._source.tells_changes else await self._source.whole()
        if found is not None:
            await self._tell(found)

    async def _tell(self, news: StreamEvent) -> None:
        self._version += 1
        self._recent.append(news)
        size = sum(len(part) for one in self._recent for part in one)
        most = RECENT_MAX if self._source.tells_changes else 1
        while len(self._recent) > most or (size > RECENT_BYTES and len(self._recent) > 1):
            size -= sum(map(len, self._recent.popleft()))
        await self.wake()

    async def _go_on(self) -> None:
        while True:
            soon = 0 < self._failures < STALE_AFTER
            await pause(self._clock, PERIOD_MS if soon else self._topics.rest_ms(self))
            try:
                await self._look()
            except Refusal as error:
                await self._failed(error, str(error))
            except Exception as error:  # noqa: BLE001 - the next look may find the source again
                await self._failed(error, "internal error; see the log")

    async def _failed(self, error: Exception, told: str) -> None:
        self._failures += 1
        if self._failures == 1:
            unforeseen = None if isinstance(error, Refusal) else error
            log.warning(
                "a page cannot be kept up to date for now", error=str(error), exc_info=unforeseen
            )
        elif self._failures == STALE_AFTER:
            self._stale = event("stale", json.encode({"told": told}))
            await self._tell(self._stale)


class LiveTopics:
    """The topics that somebody listens to, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, LiveTopic] = {}

    @property
    def count(self) -> int:
        return len(self._topics)

    def rest_ms(self, topic: LiveTopic) -> int:
        """How long a topic rests before it looks again. Each gets a part of the time in proportion
        to the square root of what its look costs. With such parts the rests of all topics have the
        smallest sum, and many cheap topics do not hold up an expensive one as much as if all parts
        were equal."""
        roots = sum(sqrt(one.cost_ms) for one in self._topics.values())
        return max(PERIOD_MS, int(SHARE * sqrt(topic.cost_ms) * roots))

    async def events(self, key: str, source: LiveSource) -> AsyncGenerator[StreamEvent, None]:
        """The events of a topic for one listener. `source`: makes the topic if there is none.
        Raises whatever the source raises at the first look of all."""
        topic = self._topics.get(key)
        if topic is None or topic.ended:
            topic = self._topics[key] = LiveTopic(source, self._clock, self)
        try:
            async with aclosing(topic.events()) as found:
                async for one in found:
                    yield one
                    del one  # nobody keeps it while this waits for the next
        finally:
            if not topic.listeners and self._topics.get(key) is topic:
                del self._topics[key]

    async def close(self) -> None:
        for topic in list(self._topics.values()):
            topic.end()
            await topic.wake()
