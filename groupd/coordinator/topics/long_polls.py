"""Requests that read, and wait until there is enough: Fetch, and whatever else waits for records.

Waiting costs nothing: logs set an event when they move. How many logs all requests wait for
together is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from groupd.coordinator.core.slices import REQUEST_ITEMS, Pace, Steps
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.long_work import LongWork

WAITED_FOR_MAX = 250_000
"""Limit on the partitions that all waiting requests wait for together."""

UNWATCHED_MS = 100
"""How long a request rests before it reads again, if there was no room to wait for its partitions.
If it were answered at once, its client would only ask again."""


class Watchable(Protocol):
    """What a request can wait for: a log, or what a feature keeps beside one."""

    @property
    def closed(self) -> bool:
        """It never moves again: look it up anew."""
        ...

    @property
    def position(self) -> int:
        """Another number each time there may be more to read; of a log its high watermark."""
        ...

    def add_waiter(self, event: asyncio.Event) -> None:
        """Set `event` whenever the position moves, or it is closed."""
        ...

    def remove_waiter(self, event: asyncio.Event) -> None: ...


WatchedPosition = tuple[Watchable, int]
"""With the position that was seen."""

WaitForEvent = Callable[[asyncio.Event, int], Awaitable[None]]
"""`wait(event, timeout_ms)`: returns when the event is set or the time is over."""


async def wait_for_event(event: asyncio.Event, timeout_ms: int) -> None:
    """The `WaitForEvent` of the real clock."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return


class Attempt(Protocol):
    """What one reading has found."""

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    @property
    def complete(self) -> bool:
        """There is no point in waiting for more."""
        ...

    @property
    def watched(self) -> Sequence[WatchedPosition]:
        """What may bring more: logs, mostly. If there is none of it, the poll ends."""
        ...


class Memory(Protocol):
    """The memory that a request takes for what it has read; a `Waiter` has this."""

    def room(self, wanted: int) -> int: ...

    def holds(self, size: int) -> None: ...

    def when_short(self, callback: Callable[[], None] | None) -> None: ...


A = TypeVar("A", bound=Attempt)


class LongPolls:
    """All requests that wait for records. `elapsed()` measures how long they have waited, `wait` is
    how they wait."""

    def __init__(
        self, work: LongWork, elapsed: Callable[[], Instant], wait: WaitForEvent = wait_for_event
    ) -> None:
        self._work = work
        self._elapsed = elapsed
        self._wait = wait
        self._waited_for = 0
        """Partitions that requests wait for."""

    async def poll(
        self,
        read: Callable[[int], Awaitable[A]],
        memory: Memory,
        *,
        min_bytes: int,
        max_bytes: int,
        until_ms: int,
        pace: Pace,
    ) -> A:
        """Call `read(how many bytes there is room for)`, again and again, until it has `min_bytes`
        or is complete, or it is `until_ms`; or until others are short of memory. What an attempt
        has read is dropped while its request waits, and read again."""
        while True:
            found = await read(memory.room(max_bytes))
            memory.holds(found.size)
            now_ms = self._elapsed().monotonic_ms
            watched = found.watched
            if found.complete or found.size >= min_bytes or now_ms >= until_ms or not watched:
                return found
            del found
            memory.holds(0)
            event = _MoreOrShort()
            memory.when_short(event.short)
            try:
                await self.until_moved(watched, event, until_ms - now_ms, pace)
            finally:
                memory.when_short(None)
            if event.is_short:
                until_ms = now_ms

    async def until_moved(
        self, watched: Sequence[WatchedPosition], event: asyncio.Event, timeout_ms: int, pace: Pace
    ) -> None:
        """Wait until one of them has moved or is closed, somebody else sets `event`, or the time is
        over. It may return early, if there is no room to wait for so many."""
        if self._waited_for + len(watched) > WAITED_FOR_MAX:
            await self._wait(event, min(timeout_ms, UNWATCHED_MS))
            return
        fresh = True
        self._waited_for += len(watched)
        try:
            for one, seen in watched:
                if pace.due():
                    await pace.turn()
                one.add_waiter(event)
                # Records that were appended between reading and watching have not set the event.
                fresh = fresh and not one.closed and one.position == seen
            if fresh:
                await self._wait(event, timeout_ms)
        finally:
            self._waited_for -= len(watched)
            self._work.add(_unwatch(watched, event), lambda _: None)


class _MoreOrShort(asyncio.Event):
    """Set by new records, or because others wait for the memory of this request (`is_short`)."""

    is_short = False

    def short(self) -> None:
        self.is_short = True
        self.set()


def _unwatch(watched: Sequence[WatchedPosition], event: asyncio.Event) -> Steps[None]:
    for number, (one, _) in enumerate(watched, 1):
        one.remove_waiter(event)
        if number % REQUEST_ITEMS == 0:
            yield
