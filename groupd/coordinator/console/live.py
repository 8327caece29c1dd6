"""Server-sent events for pages that many browsers show, made once for all of them.

A topic (all groups, one group, the daemon's health) works only while it has listeners. It looks at
its source again and again. When it finds something new, it makes one event, and all listeners are
sent the same bytes. A listener that was too slow for some events is sent them one after the other
if they are still there, and otherwise everything anew.

While a topic cannot look at its source, its listeners are notified that their data is old: the
event `stale` says why, and `fresh`, or any other event, says that this is over.
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
"""The longest time after which a listener is sent something, so that a lost connection is
noticed."""

KEEP_ALIVE: StreamEvent = (memoryview(b": keep-alive\n\n"),)
PERIOD_MS = 1000
"""The shortest time between two looks."""

SHARE = 30
"""All topics together take about a thirtieth of the time of the loop."""

LOOK_MS = 3.0
"""The least cost of a look, however little there is to see. The real time is not measured, because
on a busy machine most of it is the work of others."""

STALE_AFTER = 3
"""After this many failed looks in a row, a second apart, listeners are notified. A single one may
only mean that a shard is being loaded."""

RECENT_MAX = 60
RECENT_BYTES = 1 << 20
"""At most this many bytes, and `RECENT_MAX` events, are kept for slow listeners. The newest event
is always kept."""


class LiveSource(Protocol):
    """What a topic shows. `cost_ms`: about how much processor time the last look took.
    `tells_changes`: whether events have only what has changed, rather than everything. Both methods
    raise an exception if the source cannot be asked just now."""

    @property
    def cost_ms(self) -> float: ...

    @property
    def tells_changes(self) -> bool: ...

    async def look(self) -> StreamEvent | None:
        """An event with everything that is new since the last look; None if nothing is."""
        ...

    async def whole(self) -> StreamEvent:
        """An event with everything, as of the last look."""
        ...


def event(name: str, *data: bytes | memoryview) -> StreamEvent:
    """A server-sent event. `data`: the parts of its JSON, which is one line."""
    head = b"event: %s\ndata: " % name.encode()
    return tuple(map(memoryview, (head, *data, b"\n\n")))


FRESH = event("fresh", b"{}")


class LiveTopic:
    """One topic and its listeners. `topics`: all topics, which share the time for looks."""

    def __init__(self, source: LiveSource, clock: Clock, topics: LiveTopics) -> None:
        self.listeners = 0
        self.ended = False
        self._source = source
        self._clock = clock
        self._topics = topics
        self._version = 0
        self._recent: deque[StreamEvent] = deque()
        """The last events that led to this version, the newest last."""
        self._failures = 0
        """How many looks in a row have failed."""
        self._stale: StreamEvent = ()
        """The event that tells listeners that looks fail; empty while they need not know."""
        self._news = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._looked = asyncio.Lock()

    @property
    def cost_ms(self) -> float:
        return LOOK_MS + self._source.cost_ms

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """The events for one listener, beginning with everything. Raises what the source raises if
        the very first look fails."""
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
                    # A variable would keep the event in memory while this waits, once for each
                    # listener.
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
        """Ends the looks. Listeners are sent no more events."""
        self.ended = True
        if self._task is not None:
            self._task.cancel()

    async def wake(self) -> None:
        """Wakes the waiting listeners, so that they notice a new event or the end."""
        async with self._news:
            self._news.notify_all()

    async def _everything(self) -> Sequence[StreamEvent]:
        whole = await self._source.whole()
        return (whole, self._stale) if self._stale else (whole,)

    def _last(self, count: int) -> Sequence[StreamEvent]:
        """The last `count` events; none if that many are not kept any more."""
        return list(self._recent)[-count:] if count <= len(self._recent) else ()

    async def _wait(self, version: int) -> bool:
        """Waits for something new, or until it is time for a sign of life. Returns False if the
        topic has ended."""
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
    """The topics that have listeners, by key."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, LiveTopic] = {}

    @property
    def count(self) -> int:
        return len(self._topics)

    def rest_ms(self, topic: LiveTopic) -> int:
        """How long a topic rests before it looks again. Each topic gets a part of the time in
        proportion to the square root of the cost of its look. With such parts the sum of all rests
        is smallest, and many cheap topics do not hold up an expensive one as much as with equal
        parts."""
        roots = sum(sqrt(one.cost_ms) for one in self._topics.values())
        return max(PERIOD_MS, int(SHARE * sqrt(topic.cost_ms) * roots))

    async def events(self, key: str, source: LiveSource) -> AsyncGenerator[StreamEvent, None]:
        """The events of a topic for one listener. `source`: the source for a new topic, if there is
        none. Raises what the source raises if the very first look fails."""
        topic = self._topics.get(key)
        if topic is None or topic.ended:
            topic = self._topics[key] = LiveTopic(source, self._clock, self)
        try:
            async with aclosing(topic.events()) as found:
                async for one in found:
                    yield one
                    del one  # so that it is not kept in memory during the wait for the next
        finally:
            if not topic.listeners and self._topics.get(key) is topic:
                del self._topics[key]

    async def close(self) -> None:
        for topic in list(self._topics.values()):
            topic.end()
            await topic.wake()
