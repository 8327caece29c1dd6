"""Requests that read and wait until there is enough data: Fetch, and other requests that wait for
records. Waiting costs nothing, because logs set an event when their position moves. The logs that
all requests together may wait for are limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from groupd.coordinator.core.slices import REQUEST_ITEMS, Pace, Steps
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.long_work import LongWork

WAITED_FOR_MAX = 250_000
"""How many partitions all waiting requests may wait for together."""

UNWATCHED_MS = 100
"""How long a request pauses before it reads again if it may not wait for its partitions, because
others wait for too many. If it were answered at once, its client would just ask again."""


class Watchable(Protocol):
    """Something that a request can wait for: a log, or state that a feature keeps beside one."""

    @property
    def closed(self) -> bool:
        """The position never moves again: look the object up anew."""
        ...

    @property
    def position(self) -> int:
        """A number that changes each time there may be more to read. For a log: its high
        watermark."""
        ...

    def add_waiter(self, event: asyncio.Event) -> None:
        """Set `event` whenever the position moves, or the object is closed."""
        ...

    def remove_waiter(self, event: asyncio.Event) -> None: ...


WatchedPosition = tuple[Watchable, int]
"""An object to wait for, and the position that the reader has seen."""

WaitForEvent = Callable[[asyncio.Event, int], Awaitable[None]]
"""`wait(event, timeout_ms)` returns when the event is set or the time is over."""


async def wait_for_event(event: asyncio.Event, timeout_ms: int) -> None:
    """Waits in real time: a `WaitForEvent`."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return


class Attempt(Protocol):
    """The result of one reading."""

    @property
    def size(self) -> int:
        """The size of what was read, in bytes."""
        ...

    @property
    def complete(self) -> bool:
        """Whether there is no point in waiting for more."""
        ...

    @property
    def watched(self) -> Sequence[WatchedPosition]:
        """What may bring more data: logs, mostly. If it is empty, the poll ends."""
        ...


class Memory(Protocol):
    """The memory that a request holds for what it has read. A `Waiter` implements it."""

    def reserve_bytes(self, wanted: int) -> int: ...

    def set_reserved_bytes(self, size: int) -> None: ...

    def on_memory_short(self, callback: Callable[[], None] | None) -> None: ...


A = TypeVar("A", bound=Attempt)


class LongPolls:
    """All requests that wait for records. `elapsed()` measures how long they have waited, `wait`
    waits for an event."""

    def __init__(
        self, work: LongWork, elapsed: Callable[[], Instant], wait: WaitForEvent = wait_for_event
    ) -> None:
        self._work = work
        self._elapsed = elapsed
        self._wait = wait
        self._waited_for = 0
        """The number of partitions that requests wait for."""

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
        """Call `read(bytes that may be read)` again and again, until it has `min_bytes` or is
        complete, the time is `until_ms`, or other requests are short of memory. While the request
        waits it does not keep what it has read, and reads it again afterwards."""
        while True:
            found = await read(memory.reserve_bytes(max_bytes))
            memory.set_reserved_bytes(found.size)
            if found.complete or found.size >= min_bytes:
                return found
            now_ms, watched = self._elapsed().monotonic_ms, found.watched
            if now_ms >= until_ms or not watched:
                return found
            del found
            memory.set_reserved_bytes(0)
            event = _MoreOrShort()
            memory.on_memory_short(event.short)
            try:
                await self.until_moved(watched, event, until_ms - now_ms, pace)
            finally:
                memory.on_memory_short(None)
            if event.is_short:
                until_ms = now_ms

    async def until_moved(
        self, watched: Sequence[WatchedPosition], event: asyncio.Event, timeout_ms: int, pace: Pace
    ) -> None:
        """Wait until one of `watched` has moved or is closed, other code sets `event`, or the time
        is over. May return early if all requests together would wait for too many partitions."""
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
                # Records that were appended after the reading and before `add_waiter` have not set
                # the event.
                fresh = fresh and not one.closed and one.position == seen
            if fresh:
                await self._wait(event, timeout_ms)
        finally:
            self._waited_for -= len(watched)
            self._work.add(_unwatch(watched, event), lambda _: None)


class _MoreOrShort(asyncio.Event):
    """Set by new records, or because other requests wait for the memory of this one
    (`is_short`)."""

    is_short = False

    def short(self) -> None:
        self.is_short = True
        self.set()


def _unwatch(watched: Sequence[WatchedPosition], event: asyncio.Event) -> Steps[None]:
    for number, (one, _) in enumerate(watched, 1):
        one.remove_waiter(event)
        if number % REQUEST_ITEMS == 0:
            yield
