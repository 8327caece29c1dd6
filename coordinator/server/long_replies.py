"""Encodes long replies in slices, between which others are served.

All of a process share one queue and take turns of two milliseconds, one in each turn of the event
loop, so many long replies together keep it no longer from its work than one. What a reply tells is
settled when it is asked for; only its bytes come later. At most `AT_MOST` are under way: what
comes beyond is encoded at once, because each keeps a snapshot, and memory goes before stalls.
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
    """`steps` has stopped once. `wanted()`: whether somebody still waits for it. `done` takes the
    body or what went wrong."""

    steps: Steps
    wanted: Callable[[], bool]
    done: Callable[[bytearray | Exception], None]


class LongReplies:
    """The queue. `elapsed`: nanoseconds, for the slices."""

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
        """A slice; None if it was not the last one."""
        until = self._elapsed() + SLICE_NS
        try:
            while self._elapsed() < until:
                next(reply.steps)
        except StopIteration as ended:
            return (ended.value,)
        except Exception as error:  # noqa: BLE001 - whoever waits for the reply deals with it
            return (error,)
        return None
