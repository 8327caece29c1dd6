"""Encodes long replies in slices of two milliseconds, so that other requests are served in between.

All long replies of a listener share one queue, and each turn of the event loop works on one slice
of one of them. So many long replies delay the loop no more than one does. The content of a reply is
fixed when the request is handled; only its bytes are made later. Each unfinished reply keeps a
snapshot in memory, so at most `AT_MOST` are under way. Further ones are encoded at once: a stall is
better than running out of memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.protocol.wire.registry import Steps

SLICE_NS = 2_000_000
AT_MOST = 64


class LongReply(Struct, frozen=True):
    """`steps` has already stopped once. `wanted()`: whether the client is still connected. `done`
    takes the body, or the exception that ended the encoding."""

    steps: Steps
    wanted: Callable[[], bool]
    done: Callable[[bytearray | Exception], None]


class LongReplies:
    """The queue. `elapsed`: a clock in nanoseconds, which measures the slices."""

    def __init__(self, at_most: int = AT_MOST, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._at_most = at_most
        self._elapsed = elapsed
        self._queue: deque[LongReply] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def full(self) -> bool:
        return len(self._queue) >= self._at_most

    def add(self, reply: LongReply) -> None:
        self._queue.append(reply)
        if len(self._queue) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        reply = self._queue[0]
        ended = self._work_on(reply) if reply.wanted() else ()
        self._queue.popleft()
        if ended is None:
            self._queue.append(reply)
        if self._queue:
            asyncio.get_running_loop().call_soon(self._turn)
        if ended:
            reply.done(ended[0])

    def _work_on(self, reply: LongReply) -> tuple[bytearray | Exception] | None:
        """Works one slice. Returns the result after the last slice, else None."""
        until = self._elapsed() + SLICE_NS
        try:
            while self._elapsed() < until:
                next(reply.steps)
        except StopIteration as ended:
            return (ended.value,)
        except Exception as error:  # noqa: BLE001 - `done` deals with it
            return (error,)
        return None
